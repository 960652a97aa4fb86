// Package net is the network that guests see: inside a pod its own localhost, made of Unix sockets in a folder that the
// pod's containers share.
//
// What lies in the folder:
//
//	ports         an empty file; byte N is locked by who holds TCP port N, byte 65536+N by who holds UDP port N
//	tcp-8080      a stream socket: the holder of TCP port 8080 listens there, on every address of the pod
//	tcp-8080.lo   the same, of a listener that is bound to a loopback address: nobody outside of the pod may connect
//	udp-53        a datagram socket: the holder of UDP port 53 receives there; udp-53.lo as above
//
// The locks belong to open files (F_OFD_SETLK), so they end with their holder however it ends, and a port is free at once.
// A socket that a dead holder has left is removed by the next one; who wants to know whether a port is held asks for its lock
// (F_OFD_GETLK). A socket that is bound and does not listen refuses connections.
//
// Who connects to a stream socket first gives its own socket an abstract name that ends in "/" and its address, such as
// "/127.0.0.1:40001": that is how the listener learns of the peer. Nobody connects to such a name.
//
// Every datagram begins with a header of 20 bytes, which says where it comes from:
//
//	0   1 byte    family: 4 or 6
//	1   1 byte    zero
//	2   2 bytes   port, most significant byte first
//	4   16 bytes  address; the last 12 bytes are zero for family 4
//
// How many datagrams wait for their receiver is the kernel's setting net.unix.max_dgram_qlen, of the network namespace in
// which the receiver was made; it is 10 where nobody has set it.
//
// IPv4 and IPv6 are the same place: a listener on 127.0.0.1 is reached through ::1 too.
package net
