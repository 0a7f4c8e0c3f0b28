package effects

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/go-json-experiment/json"
)

// Op is the kind of a line.
type Op string

// Kinds of lines.
const (
	Start  Op = "start"  // a run began
	Commit Op = "commit" // its effect took place
)

// Line is one entry of the ledger.
type Line struct {
	Op      Op     `json:"op"`
	Time    int64  `json:"t"` // Unix time in nanoseconds
	Tool    string `json:"tool"`
	Key     string `json:"key"`
	CallID  string `json:"call"`
	Attempt int    `json:"attempt"`
	Fence   uint64 `json:"fence"`
	PID     int    `json:"pid"`
}

// Append appends a line. If it is a Commit, Append syncs the file.
func Append(path string, l Line) error {
	raw, err := json.Marshal(l)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(append(raw, '\n')) // one write, so that lines of several processes do not mix
	if err == nil && l.Op == Commit {
		err = f.Sync()
	}
	return errors.Join(err, f.Close())
}

// Read returns all lines in the order in which they were written.
func Read(path string) ([]Line, error) {
	var lines []Line
	err := each(path, func(raw []byte) error {
		var l Line
		if err := json.Unmarshal(raw, &l); err != nil {
			return fmt.Errorf("ledger line %d: %w", len(lines)+1, err)
		}
		lines = append(lines, l)
		return nil
	})
	return lines, err
}

// Find returns the commit for the key of a tool, if there is one.
func Find(path, tool, key string) (Line, bool, error) { return find(path, Commit, tool, key) }

func find(path string, op Op, tool, key string) (found Line, ok bool, err error) {
	err = each(path, func(raw []byte) error {
		var l Line
		if ok || !bytes.Contains(raw, []byte(key)) {
			return nil
		}
		if err := json.Unmarshal(raw, &l); err != nil {
			return fmt.Errorf("ledger: %w", err)
		}
		if l.Op == op && l.Tool == tool && l.Key == key {
			found, ok = l, true
		}
		return nil
	})
	return found, ok, err
}

// each calls see with every line. A missing file has no lines.
func each(path string, see func([]byte) error) error {
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		if err := see(lines.Bytes()); err != nil {
			return err
		}
	}
	return lines.Err()
}
