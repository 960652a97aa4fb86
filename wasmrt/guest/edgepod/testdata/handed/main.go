// Command handed greets on the listeners of its container's ports, with a plain build of Go.
package main

import (
	"fmt"
	"net"
	"os"

	"edgepod/wasmrt/guest/edgepod"
)

func main() {
	for _, name := range []string{"http", "admin"} {
		l, err := edgepod.Listener(name)
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		go greet(l, name)
	}
	_, err := edgepod.Listener("other")
	fmt.Println(err)
	<-edgepod.Stopping()
	fmt.Println("goodbye")
}

func greet(l net.Listener, name string) {
	for {
		c, err := l.Accept()
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Fprintln(c, "hello from", name)
		c.Close()
	}
}
