package jsonschema

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// A schema that refers to itself may try a value in several ways, and what is in it in several ways for each of
// these: forty bytes, nested thirty deep, would take days, and the errors of all tries more memory than there
// is. So the steps of a schema with references are counted.

const (
	// MaxSteps is how often a value, or what is in it, is held against a part of such a schema.
	MaxSteps = 200_000
	// stepsPerByte is for values so large that they need more.
	stepsPerByte = 8
)

var errSteps = errors.New("too many steps")

// counted is a compiled schema that counts its steps, for one validation at a time.
type counted struct {
	schema *jsonschema.Schema
	left   int
}

// Validate implements [jsonschema.SchemaExt]: it is told of each part of the schema when a value was held against it.
func (c *counted) Validate(*jsonschema.ValidatorContext, any) {
	if c.left--; c.left < 0 {
		panic(errSteps) // the library has no other way to end early
	}
}

func (c *counted) run(doc any, bytes int) (err error) {
	defer func() {
		if r := recover(); r == errSteps {
			err = errSteps
		} else if r != nil {
			panic(r)
		}
	}()
	c.left = max(MaxSteps, stepsPerByte*bytes)
	return c.schema.Validate(doc)
}

// counters are equal schemas, as many as can be at work at once: each is compiled when it is first needed.
type counters struct {
	idle    chan *counted
	compile func(*counted) error
}

func newCounters(compile func(*counted) error) *counters {
	c := &counters{make(chan *counted, runtime.GOMAXPROCS(0)), compile}
	for range cap(c.idle) {
		c.idle <- &counted{}
	}
	return c
}

// validate returns errSteps where it took too many.
func (cs *counters) validate(doc any, bytes int) error {
	c := <-cs.idle
	defer func() { cs.idle <- c }()
	if c.schema == nil {
		if err := cs.compile(c); err != nil { // it was compiled before
			return fmt.Errorf("schema: %w", err)
		}
	}
	return c.run(doc, bytes)
}
