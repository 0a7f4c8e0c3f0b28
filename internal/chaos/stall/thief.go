package stall

import (
	"bytes"
	"os"
	"strconv"
	"time"
)

// thief reads how much processor time the host of a virtual machine has stolen. It is 0 on systems without /proc/stat.
type thief struct{ before []time.Duration }

// took returns the largest amount that one processor has lost since the last call.
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

// Unit of the times in /proc/stat, and the index of the field steal in the line of a processor.
const (
	tick       = 10 * time.Millisecond
	takenField = 8
)

// stolen returns the stolen time of each processor, from the text of /proc/stat.
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
