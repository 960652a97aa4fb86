//go:build linux

package fs

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// Errno is an error number of WASI preview 1. As an error it is never zero.
type Errno uint16

// The error numbers of WASI preview 1.
const (
	Success        Errno = 0
	TooBig         Errno = 1
	Acces          Errno = 2
	AddrInUse      Errno = 3
	AddrNotAvail   Errno = 4
	AFNoSupport    Errno = 5
	Again          Errno = 6
	Already        Errno = 7
	BadF           Errno = 8
	BadMsg         Errno = 9
	Busy           Errno = 10
	Canceled       Errno = 11
	Child          Errno = 12
	ConnAborted    Errno = 13
	ConnRefused    Errno = 14
	ConnReset      Errno = 15
	DeadLk         Errno = 16
	DestAddrReq    Errno = 17
	Dom            Errno = 18
	DQuot          Errno = 19
	Exist          Errno = 20
	Fault          Errno = 21
	FBig           Errno = 22
	HostUnreach    Errno = 23
	IDRm           Errno = 24
	IlSeq          Errno = 25
	InProgress     Errno = 26
	Intr           Errno = 27
	Inval          Errno = 28
	IO             Errno = 29
	IsConn         Errno = 30
	IsDir          Errno = 31
	Loop           Errno = 32
	MFile          Errno = 33
	MLink          Errno = 34
	MsgSize        Errno = 35
	MultiHop       Errno = 36
	NameTooLong    Errno = 37
	NetDown        Errno = 38
	NetReset       Errno = 39
	NetUnreach     Errno = 40
	NFile          Errno = 41
	NoBufS         Errno = 42
	NoDev          Errno = 43
	NoEnt          Errno = 44
	NoExec         Errno = 45
	NoLck          Errno = 46
	NoLink         Errno = 47
	NoMem          Errno = 48
	NoMsg          Errno = 49
	NoProtoOpt     Errno = 50
	NoSpc          Errno = 51
	NoSys          Errno = 52
	NotConn        Errno = 53
	NotDir         Errno = 54
	NotEmpty       Errno = 55
	NotRecoverable Errno = 56
	NotSock        Errno = 57
	NotSup         Errno = 58
	NoTTY          Errno = 59
	NxIO           Errno = 60
	Overflow       Errno = 61
	OwnerDead      Errno = 62
	Perm           Errno = 63
	Pipe           Errno = 64
	Proto          Errno = 65
	ProtoNoSupport Errno = 66
	Prototype      Errno = 67
	Range          Errno = 68
	ROFS           Errno = 69
	SPipe          Errno = 70
	Srch           Errno = 71
	Stale          Errno = 72
	TimedOut       Errno = 73
	TxtBsy         Errno = 74
	XDev           Errno = 75
	NotCapable     Errno = 76
)

func (e Errno) Error() string { return fmt.Sprintf("wasi error %d (%s)", uint16(e), e.host().Error()) }

func (e Errno) host() unix.Errno {
	for _, p := range errnoTable {
		if p.wasi == e {
			return p.unix
		}
	}
	return unix.ENOTRECOVERABLE
}

// ErrnoOf translates an error of the host; nil is Success, and what has no counterpart is IO.
func ErrnoOf(err error) Errno {
	// Nearly all errors are one of these as they are; looking into others takes longer.
	switch e := err.(type) {
	case nil:
		return Success
	case Errno:
		return e
	case unix.Errno:
		return fromUnix(e)
	}
	var w Errno
	if errors.As(err, &w) {
		return w
	}
	var u unix.Errno
	if !errors.As(err, &u) {
		return IO
	}
	return fromUnix(u)
}

// fromUnix is a flat switch over the few that are frequent, then the table.
func fromUnix(u unix.Errno) Errno {
	switch u {
	case 0:
		return Success
	case unix.ENOENT:
		return NoEnt
	case unix.EAGAIN:
		return Again
	case unix.EEXIST:
		return Exist
	}
	for _, p := range errnoTable {
		if p.unix == u {
			return p.wasi
		}
	}
	return IO
}

type errnoPair struct {
	unix unix.Errno
	wasi Errno
}

// errnoTable relates each WASI number to the host's; the first of a kind wins.
var errnoTable = [...]errnoPair{
	{unix.E2BIG, TooBig},
	{unix.EACCES, Acces},
	{unix.EADDRINUSE, AddrInUse},
	{unix.EADDRNOTAVAIL, AddrNotAvail},
	{unix.EAFNOSUPPORT, AFNoSupport},
	{unix.EAGAIN, Again},
	{unix.EALREADY, Already},
	{unix.EBADF, BadF},
	{unix.EBADMSG, BadMsg},
	{unix.EBUSY, Busy},
	{unix.ECANCELED, Canceled},
	{unix.ECHILD, Child},
	{unix.ECONNABORTED, ConnAborted},
	{unix.ECONNREFUSED, ConnRefused},
	{unix.ECONNRESET, ConnReset},
	{unix.EDEADLK, DeadLk},
	{unix.EDESTADDRREQ, DestAddrReq},
	{unix.EDOM, Dom},
	{unix.EDQUOT, DQuot},
	{unix.EEXIST, Exist},
	{unix.EFAULT, Fault},
	{unix.EFBIG, FBig},
	{unix.EHOSTUNREACH, HostUnreach},
	{unix.EIDRM, IDRm},
	{unix.EILSEQ, IlSeq},
	{unix.EINPROGRESS, InProgress},
	{unix.EINTR, Intr},
	{unix.EINVAL, Inval},
	{unix.EIO, IO},
	{unix.EISCONN, IsConn},
	{unix.EISDIR, IsDir},
	{unix.ELOOP, Loop},
	{unix.EMFILE, MFile},
	{unix.EMLINK, MLink},
	{unix.EMSGSIZE, MsgSize},
	{unix.EMULTIHOP, MultiHop},
	{unix.ENAMETOOLONG, NameTooLong},
	{unix.ENETDOWN, NetDown},
	{unix.ENETRESET, NetReset},
	{unix.ENETUNREACH, NetUnreach},
	{unix.ENFILE, NFile},
	{unix.ENOBUFS, NoBufS},
	{unix.ENODEV, NoDev},
	{unix.ENOENT, NoEnt},
	{unix.ENOEXEC, NoExec},
	{unix.ENOLCK, NoLck},
	{unix.ENOLINK, NoLink},
	{unix.ENOMEM, NoMem},
	{unix.ENOMSG, NoMsg},
	{unix.ENOPROTOOPT, NoProtoOpt},
	{unix.ENOSPC, NoSpc},
	{unix.ENOSYS, NoSys},
	{unix.ENOTCONN, NotConn},
	{unix.ENOTDIR, NotDir},
	{unix.ENOTEMPTY, NotEmpty},
	{unix.ENOTRECOVERABLE, NotRecoverable},
	{unix.ENOTSOCK, NotSock},
	{unix.ENOTSUP, NotSup},
	{unix.ENOTTY, NoTTY},
	{unix.ENXIO, NxIO},
	{unix.EOVERFLOW, Overflow},
	{unix.EOWNERDEAD, OwnerDead},
	{unix.EPERM, Perm},
	{unix.EPIPE, Pipe},
	{unix.EPROTO, Proto},
	{unix.EPROTONOSUPPORT, ProtoNoSupport},
	{unix.EPROTOTYPE, Prototype},
	{unix.ERANGE, Range},
	{unix.EROFS, ROFS},
	{unix.ESPIPE, SPipe},
	{unix.ESRCH, Srch},
	{unix.ESTALE, Stale},
	{unix.ETIMEDOUT, TimedOut},
	{unix.ETXTBSY, TxtBsy},
	{unix.EXDEV, XDev},
	{unix.EPERM, NotCapable},
}
