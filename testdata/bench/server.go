// Command server answers every request with the same text, on the address in $ADDRESS. It is the same natively and as a
// module.
package main

import (
	"io"
	"log"
	"net/http"
	"os"
)

func main() {
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if _, err := io.WriteString(w, "hello\n"); err != nil {
			log.Print(err)
		}
	})
	log.Fatal(http.ListenAndServe(os.Getenv("ADDRESS"), nil))
}
