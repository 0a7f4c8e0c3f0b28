package history

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"sync"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/internal/chaos/checker"
)

// Journal stores what callers see in a file until it is checked. In memory, it would make garbage collections of this
// process longer, which delay the callers. It is safe for concurrent use.
type Journal struct {
	mu   sync.Mutex
	file *os.File
	w    *bufio.Writer
	n    int
	err  error // the first error; nothing is written after it
}

// NewJournal returns a Journal in a new file at path.
func NewJournal(path string) (*Journal, error) {
	file, err := os.Create(path)
	if err != nil {
		return nil, fmt.Errorf("journal: %w", err)
	}
	return &Journal{file: file, w: bufio.NewWriter(file)}, nil
}

// Add adds an ask.
func (j *Journal) Add(a *checker.Ask) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.n++
	if j.err == nil {
		j.err = json.MarshalWrite(j.w, a)
	}
}

// Size returns the number of asks that were added.
func (j *Journal) Size() int {
	j.mu.Lock()
	defer j.mu.Unlock()
	return j.n
}

// Asks yields the asks that were added before. It ends after an error.
func (j *Journal) Asks() iter.Seq2[*checker.Ask, error] {
	return func(yield func(*checker.Ask, error) bool) {
		end, err := j.flush()
		dec := jsontext.NewDecoder(io.NewSectionReader(j.file, 0, end))
		for {
			a := new(checker.Ask)
			if err == nil {
				err = json.UnmarshalDecode(dec, a)
			}
			if errors.Is(err, io.EOF) {
				return
			}
			if err != nil {
				yield(nil, fmt.Errorf("journal: %w", err))
				return
			}
			if !yield(a, nil) {
				return
			}
		}
	}
}

// flush writes buffered asks and returns the size of the file.
func (j *Journal) flush() (size int64, err error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if err := errors.Join(j.err, j.w.Flush()); err != nil {
		return 0, err
	}
	return j.file.Seek(0, io.SeekCurrent)
}

// Close closes the journal and removes its file.
func (j *Journal) Close() error { return errors.Join(j.file.Close(), os.Remove(j.file.Name())) }
