package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
)

// Input returns the JSON that --input names: "-" is standard input, and "@" is before the name of a file.
func Input(ctx context.Context, stdin io.Reader, arg string) (jsontext.Value, error) {
	data := []byte(arg)
	var err error
	switch {
	case arg == "-":
		data, err = readWhile(ctx, func() ([]byte, error) { return readAll(stdin) })
	case strings.HasPrefix(arg, "@"):
		data, err = readWhile(ctx, func() ([]byte, error) {
			f, err := os.Open(arg[1:])
			if err != nil {
				return nil, err
			}
			defer f.Close()
			return readAll(f)
		})
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("--input was not read to its end, nothing was sent: %w", ctx.Err())
	}
	if err != nil {
		return nil, Usagef("--input: %v", err)
	}
	if len(data) > envelope.MaxPayload {
		return nil, Usagef("--input is larger than %d bytes", envelope.MaxPayload)
	}
	return data, legible(arg, data)
}

// legible refuses an input that cannot be read as one JSON value, and says where. What else is wrong
// with it is told of the call.
func legible(arg string, data []byte) error {
	bad := ijson.Check(data)
	switch {
	case len(bad) == 0, envelope.InputFault(bad).Code != envelope.CodeMalformed:
		return nil
	case len(bytes.TrimSpace(data)) == 0:
		return Usagef("%s is empty: an input is JSON, {} at least", source(arg))
	}
	var problems strings.Builder
	for _, v := range bad[:min(len(bad), maxProblems)] {
		fmt.Fprintf(&problems, "\n  %s", v.Message)
		if v.Pointer != "" {
			fmt.Fprintf(&problems, " (at %s)", EscapeText(v.Pointer))
		}
	}
	return Usagef("%s cannot be read:%s%s", source(arg), &problems, encoding(data))
}

// maxProblems is how many of the problems of an input are told: one is mended after the other.
const maxProblems = 5

// source says where an input came from.
func source(arg string) string {
	switch {
	case arg == "-":
		return "standard input (--input -)"
	case strings.HasPrefix(arg, "@"):
		return "--input " + EscapeText(arg)
	}
	return "--input"
}

// encoding says what the input seems to be encoded in, if it is not UTF-8.
func encoding(data []byte) string {
	switch {
	case bytes.HasPrefix(data, []byte("\xef\xbb\xbf")):
		return "\n  it begins with a byte order mark: save it without one"
	case bytes.HasPrefix(data, []byte("\xff\xfe")), bytes.HasPrefix(data, []byte("\xfe\xff")):
		return "\n  it seems to be UTF-16: JSON is UTF-8, which `iconv -f UTF-16 -t UTF-8` makes of it"
	case !utf8.Valid(data):
		return "\n  it is not valid UTF-8: `iconv -f ENCODING -t UTF-8` converts it"
	}
	return ""
}

func readAll(r io.Reader) ([]byte, error) {
	return io.ReadAll(io.LimitReader(r, envelope.MaxPayload+1))
}

// readWhile reads until ctx ends. A read of a terminal or a pipe, or the opening of one, cannot be
// called off, so a read that is given up is left to end with the process.
func readWhile(ctx context.Context, read func() ([]byte, error)) ([]byte, error) {
	type result struct {
		data []byte
		err  error
	}
	done := make(chan result, 1)
	go func() {
		data, err := read()
		done <- result{data, err}
	}()
	select {
	case r := <-done:
		return r.data, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
