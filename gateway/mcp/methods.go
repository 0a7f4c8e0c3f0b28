package mcp

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"slices"
	"strings"

	"github.com/go-json-experiment/json/jsontext"
	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
)

// The methods of MCP servers that the gateway serves with calls of functions. The policy, the record, the deadline and
// the limits of a call hold for each of them.
const (
	methodResources = "resources/list"
	methodTemplates = "resources/templates/list"
	methodRead      = "resources/read"
	methodPrompts   = "prompts/list"
	methodPrompt    = "prompts/get"
	methodComplete  = "completion/complete"
)

// narrow removes the capabilities that no server of the view has.
func (v *view) narrow(has *sdk.ServerCapabilities) {
	if len(v.methods[methodPrompts]) == 0 {
		has.Prompts = nil
	}
	if len(v.methods[methodComplete]) == 0 {
		has.Completions = nil
	}
	if has.Resources != nil {
		has.Resources.Subscribe = len(v.methods[methodSubscribe]) > 0
	}
}

// passing is a request of a client that the gateway answers with calls of methods of servers.
type passing struct {
	*Server
	peer *sender
	said said
	v    *view
	meta map[string]any // of the request
	// state and responses are those of a request that answers a question of the server.
	state     string
	responses sdk.InputResponseMap
}

// ofServers answers a request with calls of methods of servers. next answers it without them: of the library's lists,
// all but one are empty.
func (s *Server) ofServers(
	ctx context.Context, method string, req sdk.Request, next sdk.MethodHandler,
) (sdk.Result, error) {
	filled(req)
	versioned, _ := req.(interface{ ProtocolVersion() string })
	peer, err := s.senderOf(req, versioned.ProtocolVersion())
	if err != nil {
		return nil, err
	}
	if r, ok := req.(*sdk.ReadResourceRequest); ok && strings.HasPrefix(r.Params.URI, resultURI) {
		return next(ctx, method, req)
	}
	ctx, leave, err := s.enter(ctx, peer)
	if err != nil {
		return nil, err
	}
	defer leave()
	if peer = s.reached(ctx, peer); peer.client == nil && isList(method) {
		s.bare.Store(true)
		return next(ctx, method, req)
	}
	if !s.isConnected(peer) {
		return nil, unlisted(errAway)
	}
	p := &passing{Server: s, peer: peer, meta: req.GetParams().GetMeta()}
	if p.said, err = read(p.meta, peer.header); err != nil {
		return nil, err
	}
	p.v, err = s.catalogue.refresh(ctx, peer.tools)
	if err != nil && isSilent(err) && isList(method) && !peer.web && peer.tools.last.Load() == nil {
		s.bare.Store(true)
		return next(ctx, method, req)
	}
	if err != nil {
		return nil, unlisted(err)
	}
	if isList(method) {
		watching{s}.gave(p.v)
	}
	switch {
	case len(p.v.methods[method]) > 0, method == methodRead:
		return p.answer(ctx, req)
	case served(method):
		return next(ctx, method, req)
	}
	return nil, notServed(method)
}

// isList reports whether a method is one of those that list.
func isList(method string) bool { return strings.HasSuffix(method, "/list") }

// filled sets the parameters of a list that has none.
func filled(req sdk.Request) {
	switch r := req.(type) {
	case *sdk.ListResourcesRequest:
		r.Params = cmp.Or(r.Params, &sdk.ListResourcesParams{})
	case *sdk.ListResourceTemplatesRequest:
		r.Params = cmp.Or(r.Params, &sdk.ListResourceTemplatesParams{})
	case *sdk.ListPromptsRequest:
		r.Params = cmp.Or(r.Params, &sdk.ListPromptsParams{})
	}
}

// answer answers the request.
func (p *passing) answer(ctx context.Context, req sdk.Request) (sdk.Result, error) {
	switch r := req.(type) {
	case *sdk.ListResourcesRequest:
		return p.list(ctx, methodResources, r.Params.Cursor)
	case *sdk.ListResourceTemplatesRequest:
		return p.list(ctx, methodTemplates, r.Params.Cursor)
	case *sdk.ListPromptsRequest:
		return p.list(ctx, methodPrompts, r.Params.Cursor)
	case *sdk.ReadResourceRequest:
		p.state, p.responses = r.Params.RequestState, r.Params.InputResponses
		return p.read(ctx, r.Params.URI)
	case *sdk.GetPromptRequest:
		p.state, p.responses = r.Params.RequestState, r.Params.InputResponses
		return p.prompt(ctx, r.Params)
	case *sdk.CompleteRequest:
		return p.complete(ctx, r.Params)
	}
	return nil, notServed("this method")
}

// once is for calls of methods: their failures are for the client, which may ask again.
var once = envelope.RetryPolicy{MaxAttempts: 1}

// fresh returns the call of a method of a server, with a fresh key.
func (p *passing) fresh(d *Definition, input any, retry envelope.RetryPolicy) *asked {
	a := p.asks(p.peer, d, p.said, jsontext.Value(encoded(input)))
	a.call.Key, a.call.Version, a.call.Retry, a.lasting = "mcp-"+rand.Text(), "", &retry, false
	return a
}

// call calls a method of a server. Each call has a fresh key: a client that asks again gets a new answer. refused
// means that the server has answered, with the error.
func (p *passing) call(ctx context.Context, d *Definition, input any) (out *passed, refused bool, err error) {
	a := p.fresh(d, input, once)
	if isList(d.method) && a.call.Timeout == 0 && len(p.v.methods[d.method]) > 1 {
		a.call.Timeout = listTime // the other servers do not wait for a slow one
	}
	if d.method == methodRead || d.method == methodPrompt {
		if err := a.answering(p.meta, p.state, p.responses); err != nil {
			return nil, false, err
		}
	}
	resp, err := a.run(ctx)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, false, a.unwaited(context.Cause(ctx))
	case err != nil:
		return nil, false, protocolError(err)
	case resp.Error != nil:
		if question := a.question(resp); question != nil {
			return &passed{ResultBase: question.ResultBase, question: question}, false, nil
		}
		refused, err = methodError(resp, p.peer.protocol)
		return nil, refused, err
	}
	result, _ := sent(resp.Output, resp)
	out = &passed{result: result, modern: p.peer.protocol >= modern, cached: d.method == methodRead}
	out.Meta = sdk.Meta{envelope.MetaRef: a.ref()}
	return out, false, nil
}

// methodError returns the protocol error for a call of a method that failed. It is the one of the server, if that sent
// one (refused).
func methodError(r *envelope.Response, protocol string) (refused bool, err error) {
	e := r.Error
	var said struct {
		Error *struct {
			Code    int64           `json:"code"`
			Message string          `json:"message"`
			Data    json.RawMessage `json:"data"`
		} `json:"io.toolbus/error"`
	}
	if json.Unmarshal(e.Details.ToolResult, &said) == nil && said.Error != nil {
		out := &jsonrpc.Error{Code: said.Error.Code, Message: said.Error.Message, Data: withCode(said.Error.Data, e)}
		return true, inProtocol(out, protocol)
	}
	code := codeOf(e)
	switch {
	case code != 0:
	case r.Status == envelope.RetryableError:
		code = codeUnavailable
	case r.Status == envelope.InvalidRequest:
		code = jsonrpc.CodeInvalidParams
	default:
		code = jsonrpc.CodeInternalError
	}
	return e.Code == envelope.CodeToolUnknown, failure(code, e)
}

// inProtocol returns the error of a server with the code that the protocol has for a resource that does not exist.
func inProtocol(said *jsonrpc.Error, protocol string) error {
	if said.Code == codeNoResource && protocol >= modern {
		said.Code = jsonrpc.CodeInvalidParams
	}
	return said
}

// withCode returns the data of a server's error with the code and the effect of the bus. Data that is not an object
// stays as it is.
func withCode(data json.RawMessage, e *envelope.Error) json.RawMessage {
	members := map[string]json.RawMessage{}
	if len(data) > 0 && json.Unmarshal(data, &members) != nil || members == nil {
		return data
	}
	members[envelope.MetaCode] = encoded(string(e.Code))
	members[envelope.MetaEffect] = encoded(string(e.Details.Effect))
	return encoded(members)
}

// codeNoResource is the code for a resource that does not exist, before protocol 2026-07-28.
const codeNoResource = -32002

// noResource returns the error for a resource that no server has.
func noResource(uri, protocol string) error {
	code := int64(codeNoResource)
	if protocol >= modern {
		code = jsonrpc.CodeInvalidParams
	}
	return &jsonrpc.Error{Code: code, Message: "Resource not found", Data: encoded(map[string]string{"uri": uri})}
}

// passed is the result of a method as its server sent it, with the _meta members that the gateway and the library add.
type passed struct {
	sdk.ResultBase
	result jsontext.Value
	modern bool // the protocol has the member resultType
	cached bool // and ttlMs and cacheScope in results of this method

	question *reply // of a server that asks for input; otherwise nil
}

// MarshalJSON implements [json.Marshaler].
func (p *passed) MarshalJSON() ([]byte, error) {
	if p.question != nil {
		asks := *p.question
		asks.ResultBase = p.ResultBase
		return asks.MarshalJSON()
	}
	members := ijson.Members(p.result)
	var meta jsontext.Value
	ttl := jsontext.Value("0")
	members = slices.DeleteFunc(members, func(m ijson.Member) bool {
		switch {
		case m.Is("_meta"):
			meta = m.Value
		case m.Is("ttlMs") && m.Value.Kind() == '0':
			ttl = m.Value
		}
		return m.Is("_meta") || m.Is("resultType") || m.Is("ttlMs") || m.Is("cacheScope")
	})
	if p.modern {
		members = append(members, member("resultType", ijson.Quote(resultComplete)))
	}
	if p.modern && p.cached { // the policy decides what a caller may read
		members = append(members, member("ttlMs", ttl), member("cacheScope", ijson.Quote("private")))
	}
	meta, err := (&reply{ResultBase: p.ResultBase}).meta(meta)
	if err == nil && meta != nil {
		members = append(members, member("_meta", meta))
	}
	return ijson.Object(members...), err
}
