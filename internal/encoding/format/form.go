package format

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
)

// Kind is a kind of thing that carries a form number.
type Kind struct {
	Name   string
	oldest int // the oldest form that this build reads
	reads  int // the newest form that this build reads
	write  int // the form that this build writes
}

// first is the oldest form that any kind may have: those of Toolbus 0.1 count as the one before.
const first = 2

// EventNow is the form of events.
const EventNow = first + 1 + ahead

// The kinds of things with a form. A form is read one release before it is written: raise the second
// number in one release, and the third in the next. The first is what build f16d274 wrote: see [Error].
var (
	Event   = Kind{"event of the call log", first + 1, EventNow, EventNow} // package kv
	Frame   = Kind{"frame of chunks", first, first, first}                 // package streaming
	Record  = Kind{"audit record", first + 1, first + 1, first + 1}        // packages audit and writer
	Segment = Kind{"audit segment", first, first, first}                   // packages audit and writer
	// Message travels between processes and is not stored: packages rpc and executorapi.
	Message = Kind{"message between processes", first, first, first}
	// Entry is an entry of a bucket, or a dead letter: packages heartbeat, tokenstore and deadletter.
	Entry   = Kind{"heartbeat, credential or dead letter", first, first, first}
	Streams = Kind{"set of streams", first, first, first} // package bus: the topology as a whole
)

// Current returns the form that this build writes.
func (k Kind) Current() int { return k.write }

// Check returns an [*Error] unless this build reads form n of k.
func (k Kind) Check(n int) error {
	if n < k.oldest || n > k.reads {
		return &Error{Kind: k, Version: n}
	}
	return nil
}

// Error says that something is of a form that this build does not read. Whoever meets it stops there:
// it neither acknowledges the thing nor takes it for something else, and leaves it to a build that reads it.
type Error struct {
	Kind    Kind
	Version int    // 0 where the thing carries no number
	Detail  string // what in it is not known, where the number alone is
}

func (e *Error) Error() string {
	switch {
	case e.Detail != "":
		return fmt.Sprintf("%s of form %d says %s, which this build does not know: a newer build wrote it; update this "+
			"process", e.Kind.Name, e.Version, e.Detail)
	case e.Version < first:
		return fmt.Sprintf("%s without a form that this build reads: Toolbus 0.1 wrote it; stop its processes, and give "+
			"this build streams of its own "+
			"(another account, or delete the old ones)", e.Kind.Name)
	case e.Version < e.Kind.oldest:
		return fmt.Sprintf("%s of form %d, and this build reads from %d on: a build before f16d274 wrote it; run build "+
			"f16d274 until it has expired, or read from a later time on (docs/compatibility.md)", e.Kind.Name, e.Version,
			e.Kind.oldest)
	}
	return fmt.Sprintf("%s of form %d, and this build reads up to %d: a newer build wrote it; update this process",
		e.Kind.Name, e.Version, e.Kind.reads)
}

// IsUnsupported reports whether err says that a build of another age, older or newer, wrote something.
func IsUnsupported(err error) bool {
	_, ok := errors.AsType[*Error](err)
	return ok
}

// Newer reports whether err says that a newer build than this one wrote something.
func Newer(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Version >= e.Kind.oldest
}

// Notices tells of each form that cannot be read once. The zero value is ready; it is safe for concurrent use.
type Notices struct {
	mu     sync.Mutex
	logged map[[2]string]bool
}

// maxNotices bounds what is remembered: a form is whatever number somebody has written.
const maxNotices = 100

// Log logs that what err is about was left alone, unless it has said so of the same kind and form before.
// A nil logger discards.
func (n *Notices) Log(log *slog.Logger, msg string, err error) {
	e, ok := errors.AsType[*Error](err)
	if !ok || log == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	what := [2]string{e.Kind.Name, fmt.Sprint(e.Version, e.Detail)}
	if n.logged[what] || len(n.logged) >= maxNotices {
		return
	}
	if n.logged == nil {
		n.logged = map[[2]string]bool{}
	}
	n.logged[what] = true
	log.Error(msg, "err", err)
}
