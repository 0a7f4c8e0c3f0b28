package jsonschema

import "errors"

// A schema may try each value in several ways, and each value inside it in several ways again. Forty bytes, nested
// thirty deep, would take days. So every check counts its steps. One step is the check of one value against one part of
// the schema. Other work counts by its time: to read 8 bytes of a text for a pattern is one step, and to look up 4
// names.

const (
	// MaxSteps is the largest number of steps of one validation, except for large values.
	MaxSteps = 200_000
	// stepsPerByte is the largest number of steps per byte of a large value.
	stepsPerByte = 8
	// bytesPerStep is the number of bytes of a text that a pattern or a format reads in the time of one step.
	bytesPerStep = 8
	// stepsPerLook is the number of steps after which a check asks again whether it has to end.
	stepsPerLook = 4096
	// maxNested is the largest number of parts of a schema that a check is in at a time, so that its stack stays small.
	maxNested = 10_000
)

var errSteps = errors.New("too many steps")

// steps counts the steps of one check.
type steps struct {
	left  int
	look  int          // the number of steps left at which it asks ended
	ended func() error // such as the method Err of a context; may be nil
}

// newSteps returns the steps for the check of a value of that size.
func newSteps(ended func() error, bytes int) steps {
	left := max(MaxSteps, stepsPerByte*bytes)
	return steps{left: left, look: left - stepsPerLook, ended: ended}
}

// stopped is the panic with which take ends a check. A check is recursive, and may end at any depth.
type stopped struct{ error }

// take counts n steps. It ends the check after the last one, or if ended returns an error.
func (s *steps) take(n int) {
	if s.left -= n; s.left >= s.look {
		return
	}
	s.look = max(0, s.left-stepsPerLook)
	if s.left < 0 {
		panic(stopped{errSteps})
	}
	if s.ended == nil {
		return
	}
	if err := s.ended(); err != nil {
		panic(stopped{err})
	}
}

// read counts the steps to read a text of that size.
func (s *steps) read(bytes int) { s.take(1 + bytes/bytesPerStep) }

// bounded calls do, and returns the error with which take has ended it.
func bounded(do func()) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case stopped:
			err = r.error
		default:
			panic(r)
		}
	}()
	do()
	return nil
}
