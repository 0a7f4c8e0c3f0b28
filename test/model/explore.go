package model

import (
	"fmt"
	"hash/maphash"
	"strings"
)

// Result is what an exploration found.
type Result struct {
	States int
	Depth  int    // of the breadth-first search
	Bad    string // the invariant that was broken; "" when all hold
	Trace  []string
}

// Explore visits every state that c allows, nearest first, until an invariant breaks. A state is
// remembered by 64 bits of hash; the chance that two of ten million meet is below one in 100,000.
func Explore(c Config) Result {
	x := &explorer{machine: newMachine(c), seed: maphash.MakeSeed(), seen: map[uint64]struct{}{}}
	return x.run()
}

type explorer struct {
	*machine
	seed  maphash.Seed
	seen  map[uint64]struct{}
	paths []path // how every state was reached, in the order of discovery
}

// path is the state before, and which of its steps led here.
type path struct {
	from uint32
	step uint16
}

func (x *explorer) run() Result {
	first := x.machine.start()
	x.visit(&first, path{})
	level := []world{first}
	for base, depth := 0, 0; ; depth++ {
		var next []world
		for i := range level {
			for n, s := range x.next(&level[i]) {
				at := path{uint32(base + i), uint16(n)}
				if s.bad != "" {
					return Result{States: len(x.paths), Depth: depth + 1, Bad: s.bad, Trace: x.trace(at)}
				}
				if x.visit(&s.world, at) {
					next = append(next, s.world)
				}
			}
		}
		if len(next) == 0 {
			return Result{States: len(x.paths), Depth: depth}
		}
		base += len(level)
		level = next
	}
}

// visit reports whether w is new.
func (x *explorer) visit(w *world, p path) bool {
	h := maphash.Comparable(x.seed, *w)
	if _, ok := x.seen[h]; ok {
		return false
	}
	x.seen[h] = struct{}{}
	x.paths = append(x.paths, p)
	return true
}

// trace says in words how the step p was reached.
func (x *explorer) trace(p path) []string {
	var steps []uint16
	for at := p; ; at = x.paths[at.from] {
		steps = append(steps, at.step)
		if at.from == 0 {
			break
		}
	}
	var lines []string
	w := x.machine.start()
	for i := len(steps) - 1; i >= 0; i-- {
		before := x.last(&w)
		s := x.next(&w)[steps[i]]
		w = s.world
		line := x.words(s.note)
		if after := x.last(&w); after != before {
			line += "\t=> " + x.event(after)
		}
		lines = append(lines, line)
	}
	return lines
}

// words says what a step is.
func (x *explorer) words(n note) string {
	var b strings.Builder
	b.WriteString(n.verb)
	switch n.subject {
	case "request":
		fmt.Fprintf(&b, " request %d of %c", n.number+1, x.Asks[n.number])
	case "delivery":
		fmt.Fprintf(&b, " delivery %d of message %d", n.number%perMessage, n.number/perMessage+1)
	case "watch":
		fmt.Fprintf(&b, " watch %d", n.number)
	}
	if n.suffix != "" {
		b.WriteString(": " + n.suffix)
	}
	return b.String()
}

// event says what the log holds last.
func (x *explorer) event(id entryID) string {
	if id == 0 {
		return "the log is empty"
	}
	e := x.entries[id]
	a, _ := e.State.Attempt(e.Attempt)
	s := fmt.Sprintf("log %d: %s attempt %d", e.seq, e.Kind, e.Attempt)
	if d := a.Decision; d != nil {
		s += fmt.Sprintf(" %s %s, effect %s", d.Status, d.Code, d.Effect)
	}
	return s
}
