//go:build linux

package wasi

import (
	"encoding/binary"

	"edgepod/wasmrt/fs"
)

// putFilestat writes the filestat of preview 1.
func putFilestat(mem guestMemory, p uint32, st fs.Stat) error {
	b, err := view(mem, p, 64)
	if err != nil {
		return err
	}
	clear(b)
	le := binary.LittleEndian
	le.PutUint64(b, st.Dev)
	le.PutUint64(b[8:], st.Ino)
	b[16] = byte(st.Type)
	le.PutUint64(b[24:], st.Nlink)
	le.PutUint64(b[32:], st.Size)
	le.PutUint64(b[40:], st.Atim)
	le.PutUint64(b[48:], st.Mtim)
	le.PutUint64(b[56:], st.Ctim)
	return nil
}

// The flags that say which times to set.
const (
	fstAtim = 1 << iota
	fstAtimNow
	fstMtim
	fstMtimNow

	fstAll = fstMtimNow<<1 - 1
)

// timesOf reads the times to set; one time both given and now is Inval.
func timesOf(atim, mtim uint64, flags uint16) (fs.Times, error) {
	if flags&^fstAll != 0 {
		return fs.Times{}, fs.Inval
	}
	a, err := timeOf(atim, flags&fstAtim != 0, flags&fstAtimNow != 0)
	if err != nil {
		return fs.Times{}, err
	}
	m, err := timeOf(mtim, flags&fstMtim != 0, flags&fstMtimNow != 0)
	return fs.Times{Atim: a, Mtim: m}, err
}

func timeOf(nanos uint64, given, now bool) (fs.Time, error) {
	switch {
	case given && now:
		return fs.Time{}, fs.Inval
	case given:
		return fs.Time{Nanos: nanos, How: fs.Set}, nil
	case now:
		return fs.Time{How: fs.Now}, nil
	}
	return fs.Time{}, nil
}
