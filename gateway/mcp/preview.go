package mcp

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-018f16cc/toolbus"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Clients refuse large events: the official one for Python refuses those above 1 MiB. The result of a call must not be
// lost, because the tool may have changed something. So a large event has its beginning, and the URI of the whole.
const (
	largeEvent   = 1 << 20
	previewBytes = 64 << 10
	maxKeptMeta  = 16 << 10
)

// linked is the first protocol with blocks that link to resources.
const linked = "2025-06-18"

// resultURI is the URI of a result, before the reference of its call.
const resultURI = "toolbus://result/"

// shortened returns the answer to a call with the beginning of its result. It returns nil for any other answer.
func shortened(answer jsontext.Value, links bool) jsontext.Value {
	members := ijson.Members(answer)
	for i, m := range members {
		if !m.Is("result") {
			continue
		}
		if members[i].Value = preview(m.Value, links); members[i].Value == nil {
			return nil
		}
		return ijson.Object(members...)
	}
	return nil
}

// preview returns a result with the beginning of its content, and without its structured content. A client may drop a
// result without the structured content that it expects, so such a preview is an error that says what was done.
func preview(result jsontext.Value, links bool) jsontext.Value {
	var all []ijson.Member
	var content, structured, ref jsontext.Value
	failed := false
	for _, m := range ijson.Members(result) {
		switch {
		case m.Is("content"):
			content = m.Value
		case m.Is("structuredContent"):
			structured = m.Value
		case m.Is("isError"):
			failed = string(m.Value) == "true"
		case m.Is("resultType"):
			all = append(all, m)
		case m.Is("_meta"):
			ref = valueOf(m.Value, envelope.MetaRef)
			if len(m.Value) > maxKeptMeta {
				m.Value = ijson.Object(member(envelope.MetaRef, ref))
			}
			all = append(all, m)
		}
	}
	if content.Kind() != '[' || ref.Kind() != '"' {
		return nil
	}
	uri := resultURI + url.PathEscape(textOf(ref))
	note := fmt.Sprintf("The result has %d bytes, which is too much for one event. Its beginning follows; "+
		"the resource %s has all of it.", len(result), uri)
	if structured != nil && !failed {
		note = "The tool was run and has succeeded. " + note
	}
	blocks := []jsontext.Value{block(note), block(beginning(content, structured))}
	if links {
		blocks = append(blocks, linkTo(uri, len(result)))
	}
	all = append(all, member("content", ijson.Array(blocks...)))
	if structured != nil || failed {
		all = append(all, member("isError", jsontext.Value("true")))
	}
	return ijson.Object(all...)
}

// valueOf returns a member of an object, or nil.
func valueOf(object jsontext.Value, name string) (value jsontext.Value) {
	for _, m := range ijson.Members(object) {
		if m.Is(name) {
			value = m.Value
		}
	}
	return value
}

// beginning returns the beginning of the texts in a content. Without texts it is that of the structured content, or of
// the blocks, as JSON.
func beginning(content, structured jsontext.Value) string {
	var texts []string
	for _, b := range ijson.Items(content) {
		if text := valueOf(b, "text"); text.Kind() == '"' {
			texts = append(texts, textOf(text))
		}
	}
	all := strings.Join(texts, "\n")
	if all == "" && structured != nil {
		all = string(structured)
	}
	if all == "" {
		all = string(content)
	}
	return ijson.Clip(all, previewBytes)
}

// linkTo returns a block that links to the resource of a result.
func linkTo(uri string, size int) jsontext.Value {
	return jsontext.Value(encoded(map[string]any{
		"type": "resource_link", "uri": uri, "name": "result", "description": "the whole result of the call",
		"mimeType": "application/json", "size": size,
	}))
}

// resultTemplate describes the resources of results to clients.
func resultTemplate() *sdk.ResourceTemplate {
	return &sdk.ResourceTemplate{
		Name: "result", Title: "Result of a call", MIMEType: "application/json", URITemplate: resultURI + "{ref}",
		Description: "The whole result of a call of yours, until its outcome expires: as JSON, as tools/call answers it. " +
			"{ref} is io.toolbus/ref of its _meta.",
	}
}

// readResult answers resources/read with the result of a call. The bus gives an outcome to the caller of the call only.
func (s *Server) readResult(ctx context.Context, req *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
	peer, err := s.senderOf(req, req.ProtocolVersion())
	if err != nil {
		return nil, err
	}
	if peer.client == nil {
		return nil, unlisted(errAway)
	}
	uri := req.Params.URI
	ref, err := url.PathUnescape(strings.TrimPrefix(uri, resultURI))
	if err != nil {
		return nil, sdk.ResourceNotFoundError(uri)
	}
	key, err := subjects.ParseRef(ref)
	if err != nil {
		return nil, sdk.ResourceNotFoundError(uri)
	}
	resp, pending, err := outcomeOf(ctx, peer.client, ref)
	if refused, ok := errors.AsType[*toolbus.Error](err); ok && codeOf(refused.Reason()) == jsonrpc.CodeInvalidParams ||
		pending {
		return nil, sdk.ResourceNotFoundError(uri)
	}
	if err != nil {
		return nil, protocolError(err)
	}
	tool := s.ofResult(ctx, peer, key, ref)
	if tool == nil {
		return nil, sdk.ResourceNotFoundError(uri)
	}
	res, err := tool.result(resp, sdk.Meta{envelope.MetaRef: ref}, peer.protocol, false)
	if err != nil {
		return nil, err
	}
	text, err := res.MarshalJSON()
	if err != nil {
		return nil, err
	}
	out := &sdk.ReadResourceResult{
		Contents: []*sdk.ResourceContents{{URI: uri, MIMEType: "application/json", Text: string(text)}},
	}
	s.o.cacheable(&out.Cacheable)
	return out, nil
}

// ofResult returns a function of the tool of a call, or nil. A reference has the digest of an id that is too long.
func (s *Server) ofResult(ctx context.Context, peer *sender, key subjects.Key, ref string) *Definition {
	if key.Tool != "" {
		tool, _ := s.ofTask(ctx, peer, key.Tool) // nil with an error
		return tool
	}
	v, err := s.catalogue.refresh(ctx, peer.tools)
	if err != nil {
		return nil
	}
	for _, d := range v.sorted {
		if (subjects.Key{Tool: d.Tool, ID: key.ID}).Ref() == ref {
			return d
		}
	}
	return nil
}
