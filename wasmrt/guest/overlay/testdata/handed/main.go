// Command handed answers in capitals on the two ports that it was started with: TCP first, UDP second.
package main

import (
	"bytes"
	"fmt"
	"net"
	"os"
	"os/signal"
	"strconv"
	"syscall"
)

func main() {
	first, err := strconv.Atoi(os.Getenv("EDGEPOD_LISTEN_FD"))
	if err != nil {
		fail(err)
	}
	listener, err := net.FileListener(os.NewFile(uintptr(first), "tcp"))
	if err != nil {
		fail(err)
	}
	packets, err := net.FilePacketConn(os.NewFile(uintptr(first+1), "udp"))
	if err != nil {
		fail(err)
	}
	fmt.Println("tcp at", listener.Addr())
	fmt.Println("udp at", packets.LocalAddr())
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM)
	go streams(listener)
	go datagrams(packets)
	fmt.Println("ready")
	<-stop
	fmt.Println("goodbye")
}

func fail(err error) {
	fmt.Println(err)
	os.Exit(1)
}

func streams(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			fail(err)
		}
		if at := c.RemoteAddr().(*net.TCPAddr); at.Port == 0 || !at.IP.IsLoopback() {
			fail(fmt.Errorf("a client at %v", at))
		}
		text := make([]byte, 100)
		n, err := c.Read(text)
		if err != nil {
			fail(err)
		}
		if _, err := c.Write(bytes.ToUpper(text[:n])); err != nil {
			fail(err)
		}
		c.Close()
	}
}

func datagrams(c net.PacketConn) {
	for {
		text := make([]byte, 100)
		n, from, err := c.ReadFrom(text)
		if err != nil {
			fail(err)
		}
		if _, err := c.WriteTo(bytes.ToUpper(text[:n]), from); err != nil {
			fail(err)
		}
	}
}
