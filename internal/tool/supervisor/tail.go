package supervisor

import (
	"fmt"
	"io"
	"sync"
)

// tail keeps the first and the last half of limit bytes that are written to it. The first error is often at the
// beginning, and the reason for the end at the end.
type tail struct {
	mu      sync.Mutex
	limit   int
	head    []byte
	end     []byte // a ring buffer once it is full
	next    int    // index in end of the next write, once it is full
	dropped int64
}

func newTail(limit int64) *tail { return &tail{limit: max(int(limit), 2)} }

// Write implements [io.Writer]. It never fails.
func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	n := len(p)
	room := min(t.limit/2-len(t.head), len(p))
	t.head = append(t.head, p[:room]...)
	t.ring(p[room:])
	return n, nil
}

// ring appends p to end, which keeps the last half of the limit.
func (t *tail) ring(p []byte) {
	size := t.limit - t.limit/2
	if over := len(p) - size; over > 0 {
		t.dropped += int64(over)
		p = p[over:]
	}
	room := min(size-len(t.end), len(p))
	t.end = append(t.end, p[:room]...)
	for p = p[room:]; len(p) > 0; {
		n := copy(t.end[t.next:], p)
		t.dropped += int64(n)
		t.next = (t.next + n) % size
		p = p[n:]
	}
}

// String returns the kept bytes, at most limit. If bytes were dropped, a note of how many takes the place of the first
// bytes of the end.
func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	end := string(t.end[t.next:]) + string(t.end[:t.next])
	if t.dropped == 0 {
		return string(t.head) + end
	}
	note, room := "", 0
	for size := -1; len(note) != size; {
		size, room = len(note), min(len(note), len(end))
		note = fmt.Sprintf("\n[%d bytes left out]\n", t.dropped+int64(room))
	}
	return string(t.head) + note + end[room:]
}

var _ io.Writer = (*tail)(nil)
