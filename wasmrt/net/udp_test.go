//go:build linux

package net

import (
	"bytes"
	"errors"
	"net/netip"
	"testing"

	"golang.org/x/sys/unix"
)

// packetConn binds a UDP port.
func packetConn(t testing.TB, l *Local, at string) PacketConn {
	t.Helper()
	p, err := l.BindUDP(addr(at))
	if err != nil {
		t.Fatalf("bind %s: %v", at, err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p
}

// send sends a datagram of two pieces.
func send(t testing.TB, p PacketConn, to, text string) {
	t.Helper()
	half := len(text) / 2
	if n, err := p.Send(addr(to), [][]byte{[]byte(text[:half]), []byte(text[half:])}); n != len(text) || err != nil {
		t.Errorf("send to %s: %d, %v", to, n, err)
	}
}

// receive takes a datagram.
func receive(t testing.TB, p PacketConn, peek bool) (string, netip.AddrPort) {
	t.Helper()
	buf := make([]byte, 1<<16)
	got, err := p.Receive([][]byte{buf[:3], buf[3:]}, peek)
	if err != nil {
		t.Errorf("receive: %v", err)
	}
	return string(buf[:got.Size]), got.From
}

func TestDatagramsComeWithTheirSender(t *testing.T) {
	dir := pod(t)
	a, b := container(t, dir), container(t, dir)
	server := packetConn(t, a, "0.0.0.0:53")
	for _, c := range []struct{ at, to, from string }{
		{"127.0.0.1:5000", "127.0.0.1:53", "127.0.0.1:5000"},
		{"0.0.0.0:5001", "127.0.0.1:53", "127.0.0.1:5001"},
		{"[::]:5002", "[::1]:53", "[::1]:5002"},
		{"0.0.0.0:5003", "10.1.2.3:53", "10.1.2.3:5003"},
	} {
		client := packetConn(t, b, c.at)
		send(t, client, c.to, "question")
		for _, peek := range []bool{true, false} {
			if text, from := receive(t, server, peek); text != "question" || from.String() != c.from {
				t.Errorf("%+v: got %q from %v", c, text, from)
			}
		}
		send(t, server, c.from, "")
		if text, from := receive(t, client, false); text != "" || from.Port() != 53 {
			t.Errorf("%+v: got %q from %v", c, text, from)
		}
	}
	_, err := server.Receive(nil, false)
	wantErr(t, "nothing there", err, unix.EAGAIN)
	for to, want := range map[string]error{
		"127.0.0.1:54": unix.ECONNREFUSED, "8.8.8.8:53": unix.ENETUNREACH, "10.1.2.3:5000": unix.ECONNREFUSED,
	} {
		_, err := server.Send(addr(to), nil)
		wantErr(t, to, err, want)
	}
}

func TestDatagramsKeepTheirBounds(t *testing.T) {
	dir := pod(t)
	a := packetConn(t, container(t, dir), "127.0.0.1:1")
	b := packetConn(t, container(t, dir), "127.0.0.1:2")
	big := bytes.Repeat([]byte("x"), maxDatagram)
	send(t, a, "127.0.0.1:2", string(big))
	send(t, a, "127.0.0.1:2", "small")
	buf := make([]byte, 10)
	if got, err := b.Receive([][]byte{buf}, false); got.Size != maxDatagram || err != nil || string(buf) != "xxxxxxxxxx" {
		t.Errorf("got %+v, %v, %q", got, err, buf)
	}
	if text, _ := receive(t, b, false); text != "small" {
		t.Errorf("got %.20q", text)
	}
	_, err := a.Send(addr("127.0.0.1:2"), [][]byte{big, {1}})
	wantErr(t, "too large", err, unix.EMSGSIZE)
	_, err = a.Send(addr("127.0.0.1:2"), make([][]byte, 2000))
	wantErr(t, "too many pieces", err, unix.EMSGSIZE)
	send(t, a, "127.0.0.1:2", "pieces")
	if got, err := b.Receive(make([][]byte, 2000), false); got.Size != 6 || err != nil {
		t.Errorf("got %+v, %v", got, err)
	}
}

func TestSenderOfDatagramsNeverWaits(t *testing.T) {
	dir := pod(t)
	a := packetConn(t, container(t, dir), "127.0.0.1:1")
	b := packetConn(t, container(t, dir), "127.0.0.1:2")
	for range 2000 {
		send(t, a, "127.0.0.1:2", "lost or not")
	}
	got := 0
	for ; ; got++ {
		if _, err := b.Receive(nil, false); err == unix.EAGAIN {
			break
		} else if err != nil {
			t.Fatal(err)
		}
	}
	if got < 10 || got == 2000 {
		t.Errorf("%d datagrams of 2000 came", got)
	}
	send(t, a, "127.0.0.1:2", "after")
	if text, _ := receive(t, b, false); text != "after" {
		t.Errorf("got %q", text)
	}
}

func TestConnectedSocketHearsItsPeerAlone(t *testing.T) {
	dir := pod(t)
	l := container(t, dir)
	a, b := packetConn(t, l, "0.0.0.0:1"), packetConn(t, l, "0.0.0.0:2")
	other := packetConn(t, container(t, dir), "127.0.0.1:3")
	wantErr(t, "connect", a.Connect(addr("127.0.0.1:2")), nil)
	wantErr(t, "connect outside", a.Connect(addr("8.8.8.8:2")), unix.ENETUNREACH)
	if got := a.Addr().String(); got != "127.0.0.1:1" {
		t.Errorf("connected socket is at %s", got)
	}
	send(t, other, "127.0.0.1:1", "from another")
	_, err := a.Receive(nil, true)
	wantErr(t, "from another", err, unix.EAGAIN)
	send(t, other, "127.0.0.1:1", "from another")
	send(t, b, "[::1]:1", "from the peer")
	for _, peek := range []bool{true, false} {
		if text, from := receive(t, a, peek); text != "from the peer" || from.Port() != 2 {
			t.Errorf("got %q from %v", text, from)
		}
	}
	wantErr(t, "disconnect", a.Connect(netip.AddrPort{}), nil)
	send(t, other, "127.0.0.1:1", "from another")
	if text, from := receive(t, a, false); text != "from another" || from.Port() != 3 {
		t.Errorf("got %q from %v", text, from)
	}
}

// FuzzDatagram gives a receiver datagrams that no guest has sent.
func FuzzDatagram(f *testing.F) {
	f.Add([]byte{}, []byte("short"))
	f.Add([]byte("\x04\x00\x00\x35\x7f\x00\x00\x01"), []byte("\x09aaaaaaaaaaaaaaaaaaaaaa"))
	f.Add([]byte("\x06\x00\x00\x35aaaaaaaaaaaaaaaa"), []byte("\x04\x00\x00\x35aaaaaaaaaaaaaaaa"))
	dir := pod(f)
	l := container(f, dir)
	p := packetConn(f, l, "127.0.0.1:1")
	raw, err := socket(unix.SOCK_DGRAM)
	if err != nil {
		f.Fatal(err)
	}
	f.Cleanup(func() { unix.Close(raw) })
	f.Fuzz(func(t *testing.T, one, two []byte) {
		wellFormed := 0
		for _, b := range [][]byte{one, two} {
			switch err := unix.Sendto(raw, b, 0, &unix.SockaddrUnix{Name: l.path(UDP, 1, true)}); err {
			case nil:
			case unix.EMSGSIZE:
				continue
			default:
				t.Fatal(err)
			}
			if len(b) >= headerSize && (b[0] == 4 || b[0] == 6) {
				wellFormed++
			}
		}
		buf := make([]byte, 16)
		for _, peek := range []bool{true, false, false, false} {
			got, err := p.Receive([][]byte{buf}, peek)
			if errors.Is(err, unix.EAGAIN) {
				continue
			}
			if err != nil || !got.From.IsValid() {
				t.Fatalf("got %+v, %v", got, err)
			}
			if !peek {
				wellFormed--
			}
		}
		if wellFormed != 0 {
			t.Errorf("%d datagrams were lost or made up", wellFormed)
		}
	})
}
