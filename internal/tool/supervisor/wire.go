package supervisor

import (
	"encoding/binary"
	"fmt"
	"io"
	"os"
	"time"

	"github.com/go-json-experiment/json"
)

// Name is argv[0] of a supervisor, and the file name of its binary next to the executor's.
const Name = "toolbus-supervisor"

// ControlFD is the file descriptor of the supervisor's control socket.
const ControlFD = 3

// programFD is the file descriptor of the program in the supervisor, if Config.Program is set.
const programFD = 4

const maxFrame = 4 << 20 // larger than any argv and environment that execve accepts

// Config is the program to run. The executor sends it over the control socket, so it is not visible in the supervisor's
// argv or environment.
type Config struct {
	Path    string   `json:"path"`
	Args    []string `json:"args"` // with argv[0]
	Env     []string `json:"env"`
	Dir     string   `json:"dir"`
	GraceMS int64    `json:"grace_ms"` // between SIGTERM and SIGKILL
	// LimitMS is the longest time of the run in milliseconds, from when the supervisor reads Config; 0 means no limit. If
	// the run lasts [Overdue] longer, the supervisor ends it as with Terminate.
	LimitMS int64 `json:"limit_ms,omitzero"`
	// Program, if not nil, is executed instead of Path: another file may be at that path by then. Use it for binaries. The
	// kernel passes the path of a script to its interpreter, which opens it. Start does not close Program.
	Program *os.File `json:"-"`

	// Descriptor is set by Start: the descriptor of Program in the supervisor, or 0.
	Descriptor int `json:"descriptor,omitzero"`
}

// executable returns the path by which the supervisor executes the program.
func (c Config) executable() string {
	if c.Descriptor != 0 {
		return fmt.Sprintf("/proc/self/fd/%d", c.Descriptor)
	}
	return c.Path
}

// Overdue is the time after the limit at which the supervisor itself ends a run. The delay lets the command of an
// executor that is not frozen arrive first, so that the executor's reason for the end is reported.
const Overdue = 50 * time.Millisecond

// Command is one byte on the control socket. The end of the socket means Kill; the kernel closes it when the executor
// dies.
type Command byte

// The commands.
const (
	Terminate Command = 't' // SIGTERM, and Kill after the grace
	Kill      Command = 'k' // SIGKILL everything now
)

// Report is the supervisor's message to the executor when no process of the run is left.
type Report struct {
	// Failure is the reason why the program could not be started; then none of its code has run.
	Failure  string `json:"failure,omitzero"`
	ExitCode int    `json:"exit_code"`        // -1 when a signal ended the program
	Signal   string `json:"signal,omitzero"`  // name of that signal
	Stopped  bool   `json:"stopped,omitzero"` // the supervisor had signalled before the program ended
	// Ours is true if the program died of a signal that the supervisor sent on a Command or after LimitMS.
	Ours     bool  `json:"ours,omitzero"`
	Expired  bool  `json:"expired,omitzero"`  // the supervisor ended the run because it exceeded LimitMS
	Leftover int   `json:"leftover,omitzero"` // processes that died of a signal after the program ended
	CPUMS    int64 `json:"cpu_ms"`            // user and system time of the whole tree
	PeakRSS  int64 `json:"peak_rss"`          // bytes, of the largest process
}

// WriteFrame writes the length of v in JSON (4 bytes, big-endian), and then that JSON.
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

// ReadFrame decodes a frame of WriteFrame into v.
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
