package client

import (
	"bytes"
	"context"
	stdjson "encoding/json"
	"fmt"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
)

// Limits of the list of a server's tools.
const (
	MaxTools = 10_000
	maxPages = 1_000
	maxList  = 64 << 20 // bytes of all pages
)

// Tool is a tool as its server defines it.
type Tool struct {
	Raw          jsontext.Value `json:"-"` // the tool as in the server's list
	Bad          error          `json:"-"` // why the members other than Name cannot be decoded
	Name         string         `json:"name"`
	Title        string         `json:"title,omitzero"`
	Description  string         `json:"description,omitzero"`
	InputSchema  jsontext.Value `json:"inputSchema,omitzero"`
	OutputSchema jsontext.Value `json:"outputSchema,omitzero"`
	Annotations  jsontext.Value `json:"annotations,omitzero"`
}

// List returns all tools of the server in the server's order.
func (c *Conn) List(ctx context.Context) (all []Tool, err error) {
	cursor, left := "", int64(maxList)
	seen := map[string]bool{}
	for n := range maxPages {
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
		if seen[page.Next] {
			return nil, fmt.Errorf("its list does not end: page %d has the cursor %.64q, as a page before", n+1, page.Next)
		}
		seen[page.Next] = true
		if cursor = page.Next; len(all) > MaxTools || left <= 0 {
			break
		}
	}
	return nil, fmt.Errorf("it lists more than %d tools, %d pages or %d bytes", MaxTools, maxPages, maxList)
}

// toolOf decodes a tool of a list. If a member has the wrong type, such as a title that is a number, only this tool is
// marked as bad.
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
		if of.Kind() == 'n' { // some servers write null for a missing member
			*of = nil
		}
	}
	return t, nil
}

// alike returns a page that all JSON libraries decode in the same way. U+FFFD replaces lone surrogates and bytes that
// are not UTF-8, and only the last of several members of one name stays. Numbers keep their text. So one such
// definition does not make the other tools of the page unreadable.
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

// unkept returns the page that the SDK gets: only names and input schemas, from which the SDK learns which arguments to
// send as headers. With the full page, the SDK would refuse the whole list for one bad tool, and answer the next list
// request from its cache.
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
	for i := range told.Tools {
		told.Tools[i].InputSchema = ijson.WithoutHuge(told.Tools[i].InputSchema, nil)
	}
	short, err := json.Marshal(told)
	if err != nil {
		return page
	}
	return short
}
