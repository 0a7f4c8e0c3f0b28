package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/envelope"
)

// readInput returns the JSON that --input names.
func readInput(ctx context.Context, g *global, arg string) (jsontext.Value, error) {
	data := []byte(arg)
	var err error
	switch {
	case arg == "-":
		data, err = readWhile(ctx, func() ([]byte, error) { return readAll(g.env.stdin) })
	case strings.HasPrefix(arg, "@"):
		data, err = readWhile(ctx, func() ([]byte, error) { return readFile(arg[1:]) })
	}
	if ctx.Err() != nil {
		return nil, fmt.Errorf("--input was not read to its end, nothing was sent: %w", ctx.Err())
	}
	if err != nil {
		return nil, usagef("--input: %v", err)
	}
	if len(data) > envelope.MaxPayload {
		return nil, usagef("--input is larger than %d bytes", envelope.MaxPayload)
	}
	v := jsontext.Value(strings.TrimSpace(string(data)))
	if !v.IsValid() {
		return nil, usagef("--input is not JSON (or has a duplicate key): %.60q", v)
	}
	return v, nil
}

func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return readAll(f)
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
