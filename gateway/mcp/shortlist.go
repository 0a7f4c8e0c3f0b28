package mcp

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/go-json-experiment/json/jsontext"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
)

// A short list has nameSearch, nameCall, the pinned tools, and those that the client has found in its session. The APIs
// of models refuse requests with more than 128 tools.

// nameCall is the name of the tool with which clients call the tools that they have found; see [Search].
const nameCall = envelope.MCPCallTool

// maxKept is the largest number of found tools in a short list. Those that were found first leave it.
const maxKept = 100

// headerSearchOnly is the HTTP header that says, instead of Search.Only, whether the list of a request is short.
const headerSearchOnly = "Toolbus-Search-Only"

// searchesItself reports whether a client is known to search for tools itself, so that its model does not get a list of
// all tools. Claude Code does so since version 2.1.7.
func searchesItself(client *sdk.Implementation) bool {
	return client != nil && client.Name == "claude-code"
}

// callTool returns the entry of nameCall in tools/list.
func callTool() *sdk.Tool {
	return &sdk.Tool{
		Name:  nameCall,
		Title: "Call a tool",
		Description: "Calls a tool that " + nameSearch + " has found, with arguments that fit the inputSchema there. " +
			"The result is that of the tool.",
		InputSchema: json.RawMessage(
			`{"type":"object","required":["name"],"additionalProperties":false,"properties":{` +
				`"name":{"type":"string","minLength":1,"maxLength":256,"description":"The name of the tool."},` +
				`"arguments":{"type":"object","description":"The arguments of the tool."}}}`,
		),
	}
}

// called returns the request that a call of nameCall stands for. If it breaks the schema of nameCall, called returns
// the result that says so.
func (l *shortLists) called(req *sdk.CallToolRequest, protocol string) (*sdk.CallToolRequest, sdk.Result, error) {
	given := jsontext.Value(cmp.Or(string(req.Params.Arguments), "{}"))
	if wrong := l.calling.Validate(given); len(wrong) > 0 {
		return nil, refused(jsonschema.Below(asInput, wrong), protocol), nil
	}
	var call struct {
		Name      string          `json:"name"`
		Arguments json.RawMessage `json:"arguments"`
	}
	if err := json.Unmarshal(given, &call); err != nil {
		return nil, nil, invalid("arguments: %v", err)
	}
	if call.Name == nameCall {
		return nil, nil, invalid("%s calls any tool but itself: give it the name of the tool that is to run", nameCall)
	}
	within, params := *req, *req.Params
	params.Name, params.Arguments, within.Params = call.Name, call.Arguments, &params
	return &within, nil, nil
}

// searchOnly reports whether a list for a client is short.
func (l *shortLists) searchOnly(v *view, peer *sender, client *sdk.Implementation) (bool, error) {
	if named := peer.header.Get(headerSearchOnly); named != "" {
		only, err := strconv.ParseBool(named)
		if err != nil {
			return false, invalid("the header %s is true or false", headerSearchOnly)
		}
		return only, nil
	}
	if l.o.Search.Only != nil {
		return *l.o.Search.Only, nil
	}
	return l.o.Search.Above >= 0 && len(v.sorted) >= defaultSearchOnly && !searchesItself(client), nil
}

// listed returns what a list for a client has: the tools of the gateway, and those of the bus.
func (l *shortLists) listed(v *view, peer *sender, req *sdk.ListToolsRequest) (first []*sdk.Tool, of *view, err error) {
	only, err := l.searchOnly(v, peer, req.ClientInfo())
	if err != nil {
		return nil, nil, err
	}
	if only {
		return []*sdk.Tool{searchTool(), callTool()}, l.shortened(v, req.Session), nil
	}
	if l.searches(v, peer, req.ClientInfo()) {
		first = []*sdk.Tool{searchTool()}
	}
	return first, v, nil
}

// searches reports whether a list for a client has nameSearch.
func (l *shortLists) searches(v *view, peer *sender, client *sdk.Implementation) bool {
	only, err := l.searchOnly(v, peer, client)
	return err == nil && only || l.o.Search.Above >= 0 && len(v.sorted) > l.o.Search.Above
}

// shortened returns the view of a short list. It warns once of each pinned tool that is not there.
func (l *shortLists) shortened(v *view, session *sdk.ServerSession) *view {
	short := &view{}
	for _, name := range slices.Concat(l.o.Search.Pinned, l.of(session)) {
		d := v.called(name)
		if d != nil {
			short.sorted = append(short.sorted, d)
		} else if slices.Contains(l.o.Search.Pinned, name) && l.warns(name) {
			l.o.Logger.Warn("a list lacks a pinned tool: check its name, and whether the client may call it",
				"pinned", name, "fix", unknown(name, v, true).Error())
		}
	}
	slices.SortFunc(short.sorted, func(a, b *Definition) int { return strings.Compare(a.Name, b.Name) })
	short.sorted = slices.Compact(short.sorted)
	return short
}

// keep adds what a search has found to the short list of its session. Requests without a session have none.
func (l *shortLists) keep(peer *sender, session *sdk.ServerSession, answer found) {
	if peer.stateless || !l.add(session, answer.Tools) {
		return
	}
	if peer.protocol >= modern { // the library alone knows which subscriptions there are
		l.changed()
		return
	}
	ctx, cancel := context.WithTimeout(l.open, tellTime) // not that of the request, whose answer would be a stream
	defer cancel()
	l.tell(ctx, session)
}

// tellTime is the longest time for which the answer to a search waits for the notification before it.
const tellTime = time.Second

// shortLists makes short lists. It holds the names of the tools that clients have found.
type shortLists struct {
	o       Options
	server  *sdk.Server
	open    context.Context // of the gateway
	changed func()          // notifies all sessions
	send    sdk.MethodHandler
	calling *jsonschema.Schema // of the arguments of nameCall

	mu     sync.Mutex
	found  map[*sdk.ServerSession][]string
	warned map[string]bool
}

func (l *shortLists) of(session *sdk.ServerSession) []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.Clone(l.found[session])
}

// add adds tools to the short list of a session. It reports whether one of them was not there.
func (l *shortLists) add(session *sdk.ServerSession, tools []foundTool) (changed bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	names := l.found[session]
	for _, tool := range tools {
		if !slices.Contains(names, tool.Name) {
			names, changed = append(names, tool.Name), true
		}
	}
	if len(l.found) == 0 {
		l.found = map[*sdk.ServerSession][]string{}
	} else if l.found[session] == nil {
		l.forget()
	}
	l.found[session] = slices.Clone(names[max(0, len(names)-maxKept):])
	return changed
}

// forget removes the sessions that have ended. Callers hold l.mu.
func (l *shortLists) forget() {
	live := map[*sdk.ServerSession][]string{}
	for session := range l.server.Sessions() {
		if names := l.found[session]; names != nil {
			live[session] = names
		}
	}
	l.found = live
}

// warns reports whether a pinned tool was not warned of yet.
func (l *shortLists) warns(name string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	was := l.warned[name]
	if l.warned == nil {
		l.warned = map[string]bool{}
	}
	l.warned[name] = true
	return !was
}

// sending keeps the way in which the library sends notifications: of a list, it notifies all sessions only.
func (l *shortLists) sending(next sdk.MethodHandler) sdk.MethodHandler {
	l.send = next
	return next
}

// tell sends one session notifications/tools/list_changed.
func (l *shortLists) tell(ctx context.Context, session *sdk.ServerSession) {
	_, _ = l.send(ctx, "notifications/tools/list_changed", &sdk.ServerRequest[*sdk.ToolListChangedParams]{
		Session: session, Params: &sdk.ToolListChangedParams{},
	}) // an error means that the client has gone
}
