package stall

import (
	"bytes"
	"os"
	"strconv"
	"time"
)

// thief looks at what the host of a virtual machine takes of its processors. Where nobody says, it is nothing.
type thief struct{ before []time.Duration }

// took returns what one processor lost at most since the last time.
func (t *thief) took() (most time.Duration) {
	text, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0 // not Linux
	}
	now := stolen(text)
	for i := range min(len(now), len(t.before)) {
		most = max(most, now[i]-t.before[i])
	}
	t.before = now
	return most
}

// What a line of a processor says: its name, then times in hundredths of a second, of which this one was taken.
const (
	tick       = 10 * time.Millisecond
	takenField = 8
)

// stolen returns what was taken of each processor, from the text of /proc/stat.
func stolen(text []byte) (all []time.Duration) {
	for line := range bytes.Lines(text) {
		fields := bytes.Fields(line)
		if len(fields) <= takenField || !bytes.HasPrefix(fields[0], []byte("cpu")) || len(fields[0]) == len("cpu") {
			continue
		}
		n, err := strconv.ParseInt(string(fields[takenField]), 10, 64)
		if err != nil {
			return nil
		}
		all = append(all, time.Duration(n)*tick)
	}
	return all
}
