package main

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"time"
)

func udp() error {
	server, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer server.Close()
	client, err := net.ListenPacket("udp", ":0")
	if err != nil {
		return err
	}
	defer client.Close()
	if n, err := client.WriteTo([]byte("ping"), server.LocalAddr()); n != 4 || err != nil {
		return fmt.Errorf("sent %d, %v", n, err)
	}
	text := make([]byte, 100)
	n, from, err := server.ReadFrom(text)
	if err != nil || string(text[:n]) != "ping" || from.(*net.UDPAddr).Port != client.LocalAddr().(*net.UDPAddr).Port {
		return fmt.Errorf("got %q from %v, %v", text[:n], from, err)
	}
	to := from.(*net.UDPAddr).AddrPort()
	if _, err := server.(*net.UDPConn).WriteToUDPAddrPort([]byte("pong"), to); err != nil {
		return err
	}
	n, at, err := client.(*net.UDPConn).ReadFromUDPAddrPort(text)
	if want := server.LocalAddr().(*net.UDPAddr).AddrPort(); err != nil || string(text[:n]) != "pong" ||
		netip.AddrPortFrom(at.Addr().Unmap(), at.Port()) != netip.AddrPortFrom(want.Addr().Unmap(), want.Port()) {
		return fmt.Errorf("got %q from %v, %v", text[:n], at, err)
	}
	// What does not fit is cut off.
	if _, err := client.WriteTo([]byte("longer than it"), server.LocalAddr()); err != nil {
		return err
	}
	if n, _, err := server.ReadFrom(text[:6]); n != 6 || err != nil || string(text[:6]) != "longer" {
		return fmt.Errorf("of a longer one: %q, %v", text[:n], err)
	}
	return nil
}

func connectedUDP() error {
	server, err := net.ListenUDP("udp", &net.UDPAddr{IP: net.IPv4(127, 0, 0, 1)})
	if err != nil {
		return err
	}
	defer server.Close()
	client, err := net.Dial("udp", server.LocalAddr().String())
	if err != nil {
		return err
	}
	defer client.Close()
	if _, err := io.WriteString(client, "ping"); err != nil {
		return err
	}
	text := make([]byte, 100)
	n, _, _, from, err := server.ReadMsgUDP(text, nil)
	if err != nil || string(text[:n]) != "ping" {
		return fmt.Errorf("got %q, %v", text[:n], err)
	}
	if _, _, err := server.WriteMsgUDP([]byte("pong"), nil, from); err != nil {
		return err
	}
	if n, err = client.Read(text); err != nil || string(text[:n]) != "pong" {
		return fmt.Errorf("got %q, %v", text[:n], err)
	}
	return nil
}

func udpDeadline() error {
	c, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(20 * time.Millisecond)); err != nil {
		return err
	}
	if _, _, err := c.ReadFrom(make([]byte, 1)); !errors.Is(err, os.ErrDeadlineExceeded) {
		return fmt.Errorf("read: %v", err)
	}
	return nil
}
