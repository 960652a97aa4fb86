package compile

import (
	"fmt"
	"strings"
	"time"
)

// budget is what compiling one module may take.
type budget struct {
	cpu, deadline time.Duration
	memory        uint64
}

// budget returns that of a module of this size.
func (c *Cache) budget(size int64) budget {
	extra := time.Duration(size) * timePerByte
	return budget{
		cpu:      max((c.cfg.CPU + extra).Round(time.Second), time.Second),
		deadline: (c.cfg.Deadline + extra).Round(time.Second),
		memory:   c.cfg.Memory + uint64(size)*memoryPerByte,
	}
}

const advice = "modules with huge functions are like that: split them, optimise for size, or let the node allow more"

// exceeded says which limit the module has hit.
func (b budget) exceeded(limit Limit) error {
	why, flag := "", ""
	switch limit {
	case LimitCPU:
		why, flag = fmt.Sprintf("compiling it takes more than the limit of %v of processor time", b.cpu), " (--compile-cpu)"
	case LimitMemory:
		why, flag = fmt.Sprintf("compiling it takes more than the limit of %d MiB of memory", b.memory>>20), " (--compile-memory)"
	default:
		why = fmt.Sprintf("compiling it takes longer than the limit of %v", b.deadline)
	}
	return &RefusedError{Why: why + "; " + advice + flag, Limit: limit}
}

// died says that the worker ended without an answer. What the engine says at its end is many lines of its own stack.
func (b budget) died(err error) error {
	cause, _, _ := strings.Cut(err.Error(), "\n")
	return &RefusedError{Why: fmt.Sprintf("compiling it failed (%s)", cause)}
}
