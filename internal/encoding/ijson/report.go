package ijson

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"
)

// report lists the violations of a text from its beginning to its end.
type report struct {
	at    place
	found []Violation
	over  bool // the list has one violation more than an error may have
}

// add appends a violation, and reports whether the list has room for more.
func (r *report) add(offset int, pointer, rule, text string) bool {
	r.found = append(r.found, NewViolation(pointer, rule, r.at.move(offset).String()+": "+text))
	r.over = len(r.found) > MaxViolations
	return !r.over
}

// syntax adds the syntax error of the JSON library.
func (r *report) syntax() {
	dec := jsontext.NewDecoder(bytes.NewBuffer(r.at.text),
		jsontext.AllowDuplicateNames(true), jsontext.AllowInvalidUTF8(true))
	err := dec.SkipValue()
	pointer, offset := dec.StackPointer(), dec.InputOffset()
	if at, ok := errors.AsType[*jsontext.SyntacticError](err); ok {
		pointer, offset, err = at.JSONPointer, at.ByteOffset, at.Err
	}
	if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		offset, err = int64(len(r.at.text)), errCut
	}
	r.add(int(offset), string(pointer), RuleSyntax, fmt.Sprintf("not JSON: %v", err))
}

var errCut = errors.New("it ends here, before the value does")

// place is a position in a text that moves only forward, so that each byte is counted once.
type place struct {
	text         []byte
	offset       int
	line, column int
}

// move moves to an offset. It ignores an offset before the current one, and stops at the end of the text.
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
