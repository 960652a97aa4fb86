//go:build linux

package wasi

import (
	"testing"

	"edgepod/wasmrt/fs"
)

// BenchmarkHostCall measures a call that does next to nothing, and one that writes to the guest's memory.
func BenchmarkHostCall(b *testing.B) {
	for name, call := range map[string]string{
		"sched_yield":   `(call $yield)`,
		"fd_fdstat_get": `(call $stat (i32.const 0) (i32.const 64))`,
	} {
		b.Run(name, func(b *testing.B) {
			run := start(b, wat(b, `(module
				(import "wasi_snapshot_preview1" "sched_yield" (func $yield (result i32)))
				(import "wasi_snapshot_preview1" "fd_fdstat_get" (func $stat (param i32 i32) (result i32)))
				(memory (export "memory") 1)
				(func (export "_start") (local $n i32)
					(loop $again
						(drop `+call+`)
						(br_if $again (i32.lt_u (local.tee $n (i32.add (local.get $n) (i32.const 1))) (i32.const 1000))))))`),
				newHost(b, Config{}, fs.Config{}))
			for b.Loop() {
				if err := run(); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/1000, "ns/call")
		})
	}
}
