// Command client says hello over TCP and UDP, and prints the answers.
package main

import (
	"fmt"
	"net"
	"os"
)

func main() {
	for network, address := range map[string]string{"tcp": "localhost:80", "udp": "127.0.0.1:53"} {
		if err := ask(network, address); err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
	}
}

func ask(network, address string) error {
	c, err := net.Dial(network, address)
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err := c.Write([]byte("hello")); err != nil {
		return err
	}
	text := make([]byte, 100)
	n, err := c.Read(text)
	fmt.Printf("%s\n", text[:n])
	return err
}
