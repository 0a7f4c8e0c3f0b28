package supervisor

import (
	"encoding/binary"
	"fmt"
	"io"
	"time"

	"github.com/go-json-experiment/json"
)

// Name is argv[0] of a supervisor, and the name of its binary beside the executor's.
const Name = "toolbus-supervisor"

// ControlFD is the descriptor on which a supervisor finds its control socket.
const ControlFD = 3

const maxFrame = 4 << 20 // more than any argv and environment that execve takes

// Config says what to run. It travels on the control socket, never in argv or the environment.
type Config struct {
	Path    string   `json:"path"`
	Args    []string `json:"args"` // including argv[0]
	Env     []string `json:"env"`
	Dir     string   `json:"dir"`
	GraceMS int64    `json:"grace_ms"` // between SIGTERM and SIGKILL
	// LimitMS is how long the run may last, from when the supervisor reads this; 0 is without end. What lasts
	// [Overdue] longer is ended as by Terminate, whether or not the executor is able to say so.
	LimitMS int64 `json:"limit_ms,omitzero"`
}

// Overdue is how long after its limit a supervisor ends a run by itself: the order of an executor that is not
// frozen comes first, and with it the executor's word for why.
const Overdue = 50 * time.Millisecond

// Command is one byte on the control socket. Its end, which the kernel sends when the executor
// dies, means Kill.
type Command byte

// The commands.
const (
	Terminate Command = 't' // SIGTERM, and Kill after the grace
	Kill      Command = 'k' // SIGKILL everything now
)

// Report is what a supervisor says when nothing of the run is left.
type Report struct {
	// Failure says why the program could not be started; nothing has run then.
	Failure  string `json:"failure,omitzero"`
	ExitCode int    `json:"exit_code"`        // -1 when a signal ended the program
	Signal   string `json:"signal,omitzero"`  // that signal
	Stopped  bool   `json:"stopped,omitzero"` // the supervisor had signalled before the program ended
	// what ended the program was a signal that the executor asked for, or its limit
	Ours     bool  `json:"ours,omitzero"`
	Expired  bool  `json:"expired,omitzero"`  // nobody asked: the run was over its limit
	Leftover int   `json:"leftover,omitzero"` // processes killed after the program ended
	CPUMS    int64 `json:"cpu_ms"`            // user and system time of the whole tree
	PeakRSS  int64 `json:"peak_rss"`          // bytes, of the largest process
}

// WriteFrame writes v as JSON with its length before it.
func WriteFrame(w io.Writer, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if len(raw) > maxFrame {
		return fmt.Errorf("frame of %d bytes is larger than %d", len(raw), maxFrame)
	}
	frame := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(raw)), uint32(len(raw)))
	_, err = w.Write(append(frame, raw...))
	return err
}

// ReadFrame reads what WriteFrame wrote.
func ReadFrame(r io.Reader, v any) error {
	var size [4]byte
	if _, err := io.ReadFull(r, size[:]); err != nil {
		return err
	}
	n := binary.BigEndian.Uint32(size[:])
	if n > maxFrame {
		return fmt.Errorf("frame of %d bytes is larger than %d", n, maxFrame)
	}
	raw := make([]byte, n)
	if _, err := io.ReadFull(r, raw); err != nil {
		return err
	}
	return json.Unmarshal(raw, v)
}
