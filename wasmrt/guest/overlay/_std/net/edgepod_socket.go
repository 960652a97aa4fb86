//go:build wasip1

package net

import (
	"context"
	"os"
	"syscall"
	"time"
)

// control is what a Dialer or ListenConfig may do with a socket before it is used.
type control = func(ctx context.Context, network, address string, c syscall.RawConn) error

// socket makes a socket that listens, or is bound, at laddr, or, where raddr is given, is connected to it. The rest of the
// package comes through here for each of its listeners and connections.
func socket(
	ctx context.Context, network string, family, sotype, proto int, ipv6only bool, laddr, raddr sockaddr, before control,
) (*netFD, error) {
	s, err := sysSocket(family, sotype, proto)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	fd := newFD(network, family, sotype, s)
	if err := fd.init(); err != nil {
		_ = syscall.Close(s)
		return nil, err
	}
	if err := fd.begin(ctx, laddr, raddr, before); err != nil {
		_ = fd.Close()
		return nil, err
	}
	return fd, nil
}

func (fd *netFD) begin(ctx context.Context, laddr, raddr sockaddr, before control) error {
	if before != nil {
		shown := raddr
		if shown == nil {
			shown = laddr
		}
		address := ""
		if shown != nil {
			address = shown.String()
		}
		if err := before(ctx, fd.familyNetwork(), address, newRawConn(fd)); err != nil {
			return err
		}
	}
	if raddr == nil {
		return fd.listen(laddr)
	}
	return fd.dial(ctx, laddr, raddr)
}

// familyNetwork is the name of the network with its family, such as tcp4.
func (fd *netFD) familyNetwork() string {
	if last := fd.net[len(fd.net)-1]; last == '4' || last == '6' {
		return fd.net
	}
	if fd.family == syscall.AF_INET {
		return fd.net + "4"
	}
	return fd.net + "6"
}

func (fd *netFD) bind(laddr sockaddr) error {
	sa, err := laddr.sockaddr(fd.family)
	if err != nil || sa == nil {
		return err
	}
	return os.NewSyscallError("bind", sysBind(fd.pfd.Sysfd, sa))
}

func (fd *netFD) listen(laddr sockaddr) error {
	if fd.sotype == syscall.SOCK_STREAM {
		// A host that has no such option has no addresses that linger.
		_ = sysSetOption(fd.pfd.Sysfd, hostReuseAddress, 1)
	}
	if err := fd.bind(laddr); err != nil {
		return err
	}
	if fd.sotype == syscall.SOCK_STREAM {
		if err := check(hostListen(int32(fd.pfd.Sysfd), int32(listenerBacklog()))); err != nil {
			return os.NewSyscallError("listen", err)
		}
	}
	fd.learnAddresses(laddr, nil)
	return nil
}

func (fd *netFD) dial(ctx context.Context, laddr, raddr sockaddr) error {
	if laddr != nil {
		if err := fd.bind(laddr); err != nil {
			return err
		}
	}
	sa, err := raddr.sockaddr(fd.family)
	if err != nil {
		return err
	}
	if err := fd.connect(ctx, sa); err != nil {
		return err
	}
	fd.isConnected = true
	fd.learnAddresses(laddr, raddr)
	return nil
}

// connect waits until the socket is connected, ctx is done, or its deadline is over.
func (fd *netFD) connect(ctx context.Context, sa syscall.Sockaddr) error {
	switch err := sysConnect(fd.pfd.Sysfd, sa); err {
	case nil, syscall.EISCONN:
		return mapErr(ctx.Err())
	case syscall.EINPROGRESS, syscall.EALREADY, syscall.EINTR:
	default:
		return os.NewSyscallError("connect", err)
	}
	if deadline, ok := ctx.Deadline(); ok {
		_ = fd.pfd.SetWriteDeadline(deadline)
	}
	interrupted := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = fd.pfd.SetWriteDeadline(aLongTimeAgo)
		close(interrupted)
	})
	err := fd.awaitConnected()
	if !stop() {
		<-interrupted
		return mapErr(ctx.Err())
	}
	_ = fd.pfd.SetWriteDeadline(time.Time{})
	return err
}

// awaitConnected waits for the end of a connect that is under way. That the socket is writable is but a hint.
func (fd *netFD) awaitConnected() error {
	for {
		if err := fd.pfd.WaitWrite(); err != nil {
			return err
		}
		result, err := sysOption(fd.pfd.Sysfd, hostError)
		if err != nil {
			return os.NewSyscallError("getsockopt", err)
		}
		switch errno := syscall.Errno(result); errno {
		case syscall.EINPROGRESS, syscall.EALREADY, syscall.EINTR:
		case syscall.EISCONN:
			return nil
		case 0:
			if _, err := sysAddress(fd.pfd.Sysfd, fd.family, hostPeerAddr); err != syscall.ENOTCONN {
				return nil
			}
		default:
			return os.NewSyscallError("connect", errno)
		}
	}
}

// learnAddresses asks the host for the socket's addresses; what it does not tell is what was asked for.
func (fd *netFD) learnAddresses(laddr, raddr sockaddr) {
	var local, remote Addr
	if laddr != nil {
		local = laddr
	}
	if sa, err := sysAddress(fd.pfd.Sysfd, fd.family, hostLocalAddr); err == nil {
		local = fd.addrFunc()(sa)
	}
	if raddr != nil {
		remote = raddr
		if sa, err := sysAddress(fd.pfd.Sysfd, fd.family, hostPeerAddr); err == nil {
			remote = fd.addrFunc()(sa)
		}
	}
	fd.setAddr(local, remote)
}
