package client

import (
	"bytes"
	"context"
	stdjson "encoding/json"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// Bounds of what a server lists.
const (
	MaxTools = 10_000
	maxPages = 1_000
	maxList  = 64 << 20 // bytes of all pages
)

// Tool is a tool as its server defines it.
type Tool struct {
	Raw          jsontext.Value `json:"-"` // all members of the server's list
	Bad          error          `json:"-"` // why the other members besides the name cannot be read
	Name         string         `json:"name"`
	Title        string         `json:"title,omitzero"`
	Description  string         `json:"description,omitzero"`
	InputSchema  jsontext.Value `json:"inputSchema,omitzero"`
	OutputSchema jsontext.Value `json:"outputSchema,omitzero"`
	Annotations  jsontext.Value `json:"annotations,omitzero"`
}

// List returns all tools of the server, as it orders them.
func (c *Conn) List(ctx context.Context) (all []Tool, err error) {
	cursor, left := "", int64(maxList)
	for range maxPages {
		raw, err := c.page(ctx, cursor, min(left, minFrame))
		if err != nil {
			return nil, err
		}
		var page struct {
			Tools []jsontext.Value `json:"tools"`
			Next  string           `json:"nextCursor"`
		}
		if err := json.Unmarshal(alike(raw), &page); err != nil {
			return nil, &MalformedError{Reason: err.Error()}
		}
		left -= int64(len(raw))
		for _, one := range page.Tools {
			t, err := toolOf(one)
			if err != nil {
				return nil, &MalformedError{Reason: err.Error()}
			}
			all = append(all, t)
		}
		if page.Next == "" {
			return all, nil
		}
		if cursor = page.Next; len(all) > MaxTools || left <= 0 {
			break
		}
	}
	return nil, fmt.Errorf("it lists more than %d tools, %d pages or %d bytes", MaxTools, maxPages, maxList)
}

// toolOf reads a tool of a list. A member of a wrong type, such as a title that is a number, takes no other tool away.
func toolOf(raw jsontext.Value) (t Tool, err error) {
	t.Raw = raw
	if bad := json.Unmarshal(raw, &t); bad != nil {
		t = Tool{Raw: raw, Bad: bad}
		var named struct {
			Name string `json:"name"`
		}
		err = json.Unmarshal(raw, &named)
		t.Name = named.Name
		return t, err
	}
	for _, of := range []*jsontext.Value{&t.InputSchema, &t.OutputSchema, &t.Annotations} {
		if of.Kind() == 'n' { // servers write null for a missing member
			*of = nil
		}
	}
	return t, nil
}

// alike returns a page as all libraries of JSON read it: with U+FFFD for a lone surrogate and for bytes that are not
// UTF-8, and the last of several members of one name. Numbers stay as they are written. One definition that libraries
// read in different ways takes no other tool away.
func alike(page jsontext.Value) jsontext.Value {
	if page.IsValid() {
		return page
	}
	var v any
	d := stdjson.NewDecoder(bytes.NewReader(page))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return page
	}
	text, err := stdjson.Marshal(v)
	if err != nil {
		return page
	}
	return text
}

func (c *Conn) page(ctx context.Context, cursor string, limit int64) (jsontext.Value, error) {
	f := &flight{limit: limit, shorten: unkept}
	return c.fly(ctx, f, func(ctx context.Context) error {
		_, err := c.session.ListTools(ctx, &mcp.ListToolsParams{Cursor: cursor})
		return err
	})
}

// unkept is what the SDK is told of a page: it learns from it which headers the arguments of a tool are to be sent in.
// It would refuse the whole list for the sake of one tool, and answer the next question from what it keeps, though what
// the tools are now is asked because they may have changed.
func unkept(page jsontext.Value) jsontext.Value {
	type tool struct {
		Name        string         `json:"name"`
		InputSchema jsontext.Value `json:"inputSchema,omitzero"`
	}
	var told struct {
		Tools []tool `json:"tools"`
	}
	if json.Unmarshal(page, &told) != nil {
		return page
	}
	short, err := json.Marshal(told)
	if err != nil {
		return page
	}
	return short
}
