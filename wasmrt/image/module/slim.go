package module

import (
	"encoding/binary"
	"fmt"
	"io"
	"slices"
	"strings"
)

// MaxTable is the most elements that a table may grow to: the engine itself has no bound, and each costs 8 bytes.
const MaxTable = 1 << 20

// Slim writes the module without its custom sections and with each table's maximum clamped.
func (m *Module) Slim(src io.ReaderAt, w io.Writer) error {
	return m.rewrite(src, w, func(s Section) bool { return s.ID != sectionCustom })
}

// HasDebug tells whether there is anything for Debug.
func (m *Module) HasDebug() bool { return slices.ContainsFunc(m.Sections, isDebug) }

// Debug writes a module that has nothing but the custom sections that debuggers read. Their offsets count from the beginning
// of the code section's content, which Slim does not change.
func (m *Module) Debug(src io.ReaderAt, w io.Writer) error { return m.rewrite(src, w, isDebug) }

func isDebug(s Section) bool { return s.ID == sectionCustom && strings.HasPrefix(s.Name, ".debug_") }

func (m *Module) rewrite(src io.ReaderAt, w io.Writer, keep func(Section) bool) error {
	if err := copyRange(src, w, 0, HeaderSize); err != nil {
		return err
	}
	for _, s := range m.Sections {
		if !keep(s) {
			continue
		}
		if s.ID == sectionTable && len(m.Tables) > 0 && m.Unknown == "" {
			done, err := m.clampTables(w)
			if err != nil {
				return err
			}
			if done {
				continue
			}
		}
		if err := copyRange(src, w, s.begin, s.end); err != nil {
			return err
		}
	}
	return nil
}

func copyRange(src io.ReaderAt, w io.Writer, begin, end int64) error {
	_, err := io.Copy(w, io.NewSectionReader(src, begin, end-begin))
	return err
}

// clampTables writes the table section anew, if it has plain tables alone.
func (m *Module) clampTables(w io.Writer) (done bool, err error) {
	out := binary.AppendUvarint(nil, uint64(len(m.Tables)))
	for _, t := range m.Tables {
		if t.Type != 0x70 && t.Type != 0x6f || t.Wide || t.Shared || t.init {
			return false, nil
		}
		if t.Min > MaxTable {
			return false, fmt.Errorf("it asks for a table of %d elements; the most is %d", t.Min, MaxTable)
		}
		if !t.HasMax || t.Max > MaxTable {
			t.Max = MaxTable
		}
		out = append(out, t.Type, 1)
		out = binary.AppendUvarint(out, t.Min)
		out = binary.AppendUvarint(out, t.Max)
	}
	if _, err := w.Write(binary.AppendUvarint([]byte{sectionTable}, uint64(len(out)))); err != nil {
		return false, err
	}
	_, err = w.Write(out)
	return err == nil, err
}
