package names_test

import (
	"testing"

	"edgepod/wasmrt/image/names"
)

const two = "\x00\x02\x01m\x01\x09\x02\x00\x01f\x05\x03two"

func TestNamesAreWrittenIntoBackTraces(t *testing.T) {
	for content, want := range map[string]string{
		two: "wasm error: unreachable\n\t.two(i32) i32\n\t.f()\n\t.$7()\n\t.$5x\n\t.$\n\t.$99999999999()\n\t.f",
		// Cut off, and with a length beyond the end.
		two[:10]:                         "wasm error: unreachable\n\t.$5(i32) i32\n\t.$0()\n\t.$7()\n\t.$5x\n\t.$\n\t.$99999999999()\n\t.$0",
		"\x01\xff\xff\xff\x0f\x01":       "wasm error: unreachable\n\t.$5(i32) i32\n\t.$0()\n\t.$7()\n\t.$5x\n\t.$\n\t.$99999999999()\n\t.$0",
		"\x01\x07\x02\x00\x01f\x05\x09t": "wasm error: unreachable\n\t.$5(i32) i32\n\t.f()\n\t.$7()\n\t.$5x\n\t.$\n\t.$99999999999()\n\t.f",
		"":                               "wasm error: unreachable\n\t.$5(i32) i32\n\t.$0()\n\t.$7()\n\t.$5x\n\t.$\n\t.$99999999999()\n\t.$0",
	} {
		got := names.Parse([]byte(content)).Annotate("wasm error: unreachable\n\t.$5(i32) i32\n\t.$0()\n\t.$7()\n\t.$5x\n\t.$\n\t.$99999999999()\n\t.$0")
		if got != want {
			t.Errorf("names of %q: %q, want %q", content, got, want)
		}
	}
}

func FuzzNames(f *testing.F) {
	f.Add([]byte(two), ".$0()\n.$5")
	f.Fuzz(func(_ *testing.T, content []byte, trace string) { names.Parse(content).Annotate(trace) })
}
