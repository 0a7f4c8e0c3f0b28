package textsearch

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"unicode/utf8"

	"github.com/seed-018f16cc/toolbus/program"
)

const (
	maxFile = 16 << 20 // bytes; larger files are passed over
	// maxText is how much of a line is shown, in bytes; around the match if the line is longer.
	maxText = 400
	// maxOutput keeps the chunks, with one more of any size, below the output limit of the manifest.
	maxOutput = 7 << 20
	// progressEvery is how many files lie between two reports.
	progressEvery = 500
	// checkEvery is how many matches lie between two looks at the time.
	checkEvery = 100
)

// errEnough ends a search that has reached a limit.
var errEnough = errors.New("enough")

// search looks into one file after the other.
type search struct {
	root    *os.Root
	pattern pattern
	context int
	limit   int
	out     *program.Stream

	found   Output
	large   int  // files passed over for their size
	tooMuch bool // whether the output limit ended the search
}

// progress says how far the search is. Nobody knows how many files there will be.
type progress struct {
	Done int    `json:"done"`
	Unit string `json:"unit"`
}

// file searches one file and emits its matches.
func (s *search) file(ctx context.Context, path string) error {
	if s.found.Truncated {
		return errEnough
	}
	if err := ctx.Err(); err != nil {
		return err
	}
	data, err := s.read(path)
	if err != nil || data == nil {
		return err
	}
	s.found.FilesSearched++
	if s.found.FilesSearched%progressEvery == 0 {
		if err := s.out.Progress(progress{s.found.FilesSearched, "files"}); err != nil {
			return err
		}
	}
	before := s.found.Matches
	err = s.matches(ctx, path, data)
	if s.found.Matches > before {
		s.found.FilesWithMatches++
	}
	return err
}

// read returns the content of a file without its byte order mark, or nil if it is not searched.
func (s *search) read(path string) ([]byte, error) {
	file, err := s.root.Open(path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(file, maxFile+1))
	if err != nil {
		return nil, err
	}
	if len(data) > maxFile {
		s.large++
		return nil, nil
	}
	if bytes.IndexByte(data[:min(len(data), 8<<10)], 0) >= 0 {
		return nil, nil
	}
	return bytes.TrimPrefix(data, []byte("\ufeff")), nil
}

// matches emits the matches of one file.
func (s *search) matches(ctx context.Context, path string, data []byte) error {
	line, counted := 1, 0
	for from := 0; ; {
		start, end, at, ok := s.pattern.next(data, from)
		if !ok {
			return nil
		}
		if s.found.Matches%checkEvery == 0 && ctx.Err() != nil {
			return ctx.Err()
		}
		if s.found.Matches == s.limit || s.out.Written() > maxOutput {
			s.found.Truncated, s.tooMuch = true, s.found.Matches < s.limit
			return errEnough
		}
		line += bytes.Count(data[counted:start], []byte("\n"))
		counted = start
		m := match{
			Path: clean(path), Line: line, Column: utf8.RuneCount(data[start:start+at[0]]) + 1,
			Text:   excerpt(trimReturn(data[start:end]), at[0]),
			Before: linesBefore(data, start, s.context),
			After:  linesAfter(data, end, s.context),
		}
		if err := s.out.Chunk(m); err != nil {
			return err
		}
		s.found.Matches++
		from = end + 1
	}
}

// warnings tells what a reader of the matches would not guess.
func (s *search) warnings(unreadable int) []string {
	var all []string
	if s.large > 0 {
		all = append(all, fmt.Sprintf("files larger than %d MiB were not searched: %d", maxFile>>20, s.large))
	}
	if unreadable > 0 {
		all = append(all, fmt.Sprintf("files or folders could not be read: %d", unreadable))
	}
	if s.tooMuch {
		all = append(all, "the search ended early because the matches fill the output limit")
	}
	return all
}

// linesBefore returns up to n lines before the one that starts at start.
func linesBefore(data []byte, start, n int) []string {
	lines := []string{}
	for len(lines) < n && start > 0 {
		end := start - 1
		start = bytes.LastIndexByte(data[:end], '\n') + 1
		lines = append([]string{excerpt(trimReturn(data[start:end]), 0)}, lines...)
	}
	return lines
}

// linesAfter returns up to n lines after the one that ends at end.
func linesAfter(data []byte, end, n int) []string {
	lines := []string{}
	for len(lines) < n && end+1 < len(data) {
		start := end + 1
		end = lineEnd(data, start)
		lines = append(lines, excerpt(trimReturn(data[start:end]), 0))
	}
	return lines
}

// excerpt returns a line, or the part of a long one that has the byte at in it.
func excerpt(line []byte, at int) string {
	start, end := 0, len(line)
	if len(line) > maxText {
		start = min(max(0, at-maxText/4), len(line)-maxText)
		end = start + maxText
		for start > 0 && !utf8.RuneStart(line[start]) {
			start++
		}
		for end < len(line) && !utf8.RuneStart(line[end]) {
			end--
		}
	}
	text := clean(string(line[start:end]))
	if start > 0 {
		text = "…" + text
	}
	if end < len(line) {
		text += "…"
	}
	return text
}

// clean makes text fit for JSON.
func clean(text string) string { return strings.ToValidUTF8(text, "\uFFFD") }
