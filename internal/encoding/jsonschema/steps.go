package jsonschema

import (
	"errors"
	"fmt"
	"runtime"

	"github.com/santhosh-tekuri/jsonschema/v6"
)

// A recursive schema may try each value in several ways, and each value inside it in several ways again. Forty bytes,
// nested thirty deep, would take days, and the errors of all attempts would exhaust the memory. So the steps of a
// schema with references are counted. One step is the validation of one value against one part of the schema.

const (
	// MaxSteps is the largest number of steps of one validation with such a schema, except for large values.
	MaxSteps = 200_000
	// stepsPerByte is the largest number of steps per byte of a large value.
	stepsPerByte = 8
)

var errSteps = errors.New("too many steps")

// counted is a compiled schema that counts its steps, for one validation at a time.
type counted struct {
	schema *jsonschema.Schema
	root   *formatNode // of schema, if it was compiled for its formats; nil if it has none
	left   int
}

// Validate implements [jsonschema.SchemaExt]. The library calls it for each part of the schema after validating a value
// against it.
func (c *counted) Validate(*jsonschema.ValidatorContext, any) {
	if c.left--; c.left < 0 {
		panic(errSteps) // the library offers no other way to stop
	}
}

// run calls do, which validates a value of that size. It returns errSteps if that takes too many steps.
func (c *counted) run(bytes int, do func() error) (err error) {
	defer func() {
		if r := recover(); r == errSteps {
			err = errSteps
		} else if r != nil {
			panic(r)
		}
	}()
	c.left = max(MaxSteps, stepsPerByte*bytes)
	return do()
}

// counters is a pool of copies of one schema, one per concurrent validation. Each copy is compiled at its first use.
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

// validate validates doc. It returns errSteps if that takes too many steps.
func (cs *counters) validate(doc any, bytes int) error {
	return cs.use(func(c *counted) error {
		return c.run(bytes, func() error { return c.schema.Validate(doc) })
	})
}

// use calls do with an idle copy.
func (cs *counters) use(do func(*counted) error) error {
	c := <-cs.idle
	defer func() { cs.idle <- c }()
	if c.schema == nil {
		if err := cs.compile(c); err != nil { // cannot fail: the same schema was compiled before
			return fmt.Errorf("schema: %w", err)
		}
	}
	return do(c)
}
