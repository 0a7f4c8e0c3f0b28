package cli

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
)

// Input returns the JSON of --input, see [JSON].
func Input(ctx context.Context, stdin io.Reader, arg string) (jsontext.Value, error) {
	return JSON(ctx, stdin, "--input", arg)
}

// JSON returns the JSON of a flag: "-" means standard input, and "@" precedes the name of a file.
func JSON(ctx context.Context, stdin io.Reader, flag, arg string) (jsontext.Value, error) {
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
		return nil, fmt.Errorf("%s was not read to its end, nothing was sent: %w", flag, ctx.Err())
	}
	if err != nil {
		return nil, Usagef("%s: %v", flag, err)
	}
	if len(data) > envelope.MaxPayload {
		return nil, Usagef("%s is larger than %d bytes", flag, envelope.MaxPayload)
	}
	return data, legible(flag, arg, data)
}

// legible returns an error with positions if data is not one JSON value. Other problems of an input appear in the
// outcome of the call.
func legible(flag, arg string, data []byte) error {
	bad := ijson.Check(data)
	switch {
	case len(bad) == 0, envelope.InputFault(bad).Code != envelope.CodeMalformed:
		return nil
	case len(bytes.TrimSpace(data)) == 0:
		return Usagef("%s is empty: an input is JSON, {} at least", source(flag, arg))
	}
	var problems strings.Builder
	for _, v := range bad[:min(len(bad), maxProblems)] {
		fmt.Fprintf(&problems, "\n  %s", v.Message)
		if v.Pointer != "" {
			fmt.Fprintf(&problems, " (at %s)", EscapeCell(v.Pointer))
		}
	}
	return Usagef("%s cannot be read:%s%s%s", source(flag, arg), &problems, encoding(data), typed(flag, arg))
}

// unquoted matches JSON whose quotes a shell has removed, or that has none.
var unquoted = regexp.MustCompile(`^\s*[{\[]\s*[^\s"{}\[\]0-9-]`)

// typed returns a hint about an argument that was typed as no JSON.
func typed(flag, arg string) string {
	info, err := os.Stat(arg)
	switch {
	case arg == "-" || strings.HasPrefix(arg, "@"):
		return ""
	case err == nil && info.Mode().IsRegular():
		return fmt.Sprintf("\n  to read the file, write %s @%s", flag, EscapeCell(arg))
	case unquoted.MatchString(arg):
		return fmt.Sprintf("\n  names and texts are in double quotes, and the shell keeps these only in single ones: "+
			`%s '{"name": "Ada"}'`, flag)
	case !strings.HasPrefix(strings.TrimSpace(arg), "{"):
		return fmt.Sprintf("\n  write JSON, such as %s '{\"name\": \"Ada\"}', or %s @FILE", flag, flag)
	}
	return ""
}

// maxProblems is the largest number of problems of an input that are printed.
const maxProblems = 5

// source returns the name of the source of an input.
func source(flag, arg string) string {
	switch {
	case arg == "-":
		return "standard input (" + flag + " -)"
	case strings.HasPrefix(arg, "@"):
		return flag + " " + EscapeCell(arg)
	}
	return flag
}

// encoding returns a hint about the encoding of an input that is not plain UTF-8.
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

// readWhile calls read and returns its result, or returns when ctx ends. A read of a terminal or pipe, or opening one,
// cannot be interrupted. So an abandoned read continues until the process ends.
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
