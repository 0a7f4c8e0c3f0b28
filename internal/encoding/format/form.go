package format

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
)

// Kind is a kind of data with a format number.
type Kind struct {
	Name   string
	oldest int // oldest format that this build reads
	reads  int // newest format that this build reads
	write  int // format that this build writes
}

// first is the oldest format number that builds read. Data of Toolbus 0.1 counts as the number before it.
const first = 2

// EventNow is the format number of events.
const EventNow = first + 1 + ahead

// The kinds of data. Builds must read a format one release before they write it: raise the second number in one
// release, and the third in the next.
var (
	Event   = Kind{"event of the call log", first + 1, EventNow, EventNow} // package kv
	Frame   = Kind{"frame of chunks", first, first, first}                 // package streaming
	Record  = Kind{"audit record", first + 1, first + 2, first + 2}        // packages audit and writer
	Segment = Kind{"audit segment", first, first, first}                   // packages audit and writer
	// Message is data that processes send and do not store: packages rpc and executorapi.
	Message = Kind{"message between processes", first, first, first}
	// Entry is an entry of a bucket, or a dead letter: packages heartbeat, tokenstore and deadletter.
	Entry   = Kind{"heartbeat, credential or dead letter", first, first, first}
	Streams = Kind{"set of streams", first, first, first} // package bus: the whole topology
)

// Current returns the format number that this build writes.
func (k Kind) Current() int { return k.write }

// Check returns an [*Error] unless this build reads format n of k.
func (k Kind) Check(n int) error {
	if n < k.oldest || n > k.reads {
		return &Error{Kind: k, Version: n}
	}
	return nil
}

// Error means that data has a format that this build does not read. A process that gets this error neither acknowledges
// nor interprets the data, and leaves it to a build that reads it.
type Error struct {
	Kind    Kind
	Version int    // 0 if the data has no number
	Detail  string // unknown part of data whose number is known, or ""
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
		return fmt.Sprintf("%s of form %d, and this build reads from %d on: an older build wrote it; run that build "+
			"until it has expired, or read from a later time on (docs/compatibility.md)", e.Kind.Name, e.Version,
			e.Kind.oldest)
	}
	return fmt.Sprintf("%s of form %d, and this build reads up to %d: a newer build wrote it; update this process",
		e.Kind.Name, e.Version, e.Kind.reads)
}

// IsUnsupported reports whether err contains an [Error]: an older or a newer build wrote the data.
func IsUnsupported(err error) bool {
	_, ok := errors.AsType[*Error](err)
	return ok
}

// Newer reports whether err contains an [Error] about data of a newer build.
func Newer(err error) bool {
	e, ok := errors.AsType[*Error](err)
	return ok && e.Version >= e.Kind.oldest
}

// Notices logs each unsupported format once. The zero value is usable. It is safe for concurrent use.
type Notices struct {
	mu     sync.Mutex
	logged map[[2]string]bool
}

// maxNotices limits the remembered formats, because the numbers come from other processes.
const maxNotices = 100

// Log logs msg and err if err contains an [Error], once for each kind and format. It does nothing if log is nil.
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
