package ijson

import (
	"bytes"
	"fmt"
	"unicode/utf8"
)

// place is a place in a text that is moved towards its end: what lies before it is counted once.
type place struct {
	text         []byte
	offset       int
	line, column int
}

// move goes to an offset, which is not before the last one and may be behind the end of the text.
func (p *place) move(offset int) *place {
	offset = min(max(offset, p.offset), len(p.text))
	passed := p.text[p.offset:offset]
	if n := bytes.Count(passed, []byte{'\n'}); n > 0 {
		p.line, p.column = p.line+n, 1
		passed = passed[bytes.LastIndexByte(passed, '\n')+1:]
	}
	p.offset, p.column = offset, p.column+utf8.RuneCount(passed)
	return p
}

func (p *place) String() string { return fmt.Sprintf("line %d, column %d", p.line, p.column) }
