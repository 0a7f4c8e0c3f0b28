package clientconfig

import (
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/client"
)

// quiet are members without effect on Toolbus: they configure questions to the user, display, or other uses of a
// server.
var quiet = []string{
	"alwaysAllow", "alwaysLoad", "autoApprove", "description", "dev", "gallery", "name", "remote", "source", "title",
	"trust", "version", "watchPaths",
}

// spoken are the types of servers that executors support.
var spoken = []string{"", "stdio", "local", "http", "streamable-http", "streamableHttp", "streamable_http", "remote"}

// server translates one entry of a configuration.
func (r reader) server(called string, raw jsontext.Value) Server {
	s := Server{Called: called, Name: called, Self: isToolbus(raw), Off: r.off(called)}
	e := entry{members: map[string]jsontext.Value{}}
	if raw.Kind() != '{' || json.Unmarshal(raw, &e.members) != nil {
		s.Err = errors.New("it is no object")
		return s
	}
	if e.flag("disabled") {
		s.Off = "it is disabled there"
	}
	if on, given := e.given("enabled"); given && on.Kind() == 'f' {
		s.Off = "it is disabled there"
	}
	s.Tools = e.filter()
	s.Tools.prefix, s.Tools.full = notWord.ReplaceAllString(called, "_")+"_", r.hidden
	e.signsIn()
	s.Server = r.reached(&e)
	s.Timeout = r.times(&e, &s.Server)
	for _, name := range quiet {
		delete(e.members, name)
	}
	s.Unknown = slices.Sorted(maps.Keys(e.members))
	if s.Self {
		e.fail("it is Toolbus itself, whose tools are on the bus already")
	}
	name, err := ServerName(called)
	if err == nil {
		s.Name = name
	}
	if s.Err = errors.Join(append(e.bad, err)...); s.Err == nil {
		s.Err = s.Server.Check()
	}
	return s
}

// entry holds the unread members of a server, and the errors of those that were read.
type entry struct {
	members map[string]jsontext.Value
	bad     []error
}

func (e *entry) fail(format string, args ...any) { e.bad = append(e.bad, fmt.Errorf(format, args...)) }

// given removes and returns a member. A member that is null counts as missing.
func (e *entry) given(name string) (jsontext.Value, bool) {
	v, there := e.members[name]
	delete(e.members, name)
	return v, there && v.Kind() != 'n'
}

func (e *entry) flag(name string) bool {
	v, _ := e.given(name)
	return v.Kind() == 't'
}

// text returns the first of the members that is present. It must be a string.
func (e *entry) text(names ...string) (text string) {
	for _, name := range names {
		if v, there := e.given(name); there && text == "" {
			if v.Kind() != '"' || json.Unmarshal(v, &text) != nil {
				e.fail("its %s is no text", name)
			}
		}
	}
	return text
}

// texts returns the strings in all of the members, which must be lists. listed reports whether at least one member is
// present.
func (e *entry) texts(names ...string) (all []string, listed bool) {
	for _, name := range names {
		v, there := e.given(name)
		if !there {
			continue
		}
		var some []string
		if v.Kind() != '[' || json.Unmarshal(v, &some) != nil {
			e.fail("its %s is no list of texts", name)
		}
		all, listed = append(all, some...), true
	}
	return all, listed
}

// table merges the members, which must be objects of strings. It converts numbers and booleans to strings, and leaves
// null out.
func (e *entry) table(names ...string) map[string]string {
	var all map[string]string
	for _, name := range names {
		v, there := e.given(name)
		if !there {
			continue
		}
		var values map[string]jsontext.Value
		if v.Kind() != '{' || json.Unmarshal(v, &values) != nil {
			e.fail("its %s is no object of texts", name)
			continue
		}
		for key, one := range values {
			text := string(one)
			switch one.Kind() {
			case 'n':
				continue
			case '"':
				if json.Unmarshal(one, &text) != nil {
					e.fail("%s of its %s is no text", key, name)
				}
			case '{', '[':
				e.fail("%s of its %s is no text", key, name)
			}
			if all == nil {
				all = map[string]string{}
			}
			all[key] = text
		}
	}
	return all
}

// number returns a member that must be a number from 0 on, at most 1e9; 0 if it is missing.
func (e *entry) number(name string) (n float64) {
	v, there := e.given(name)
	if there && (v.Kind() != '0' || json.Unmarshal(v, &n) != nil || n < 0) {
		e.fail("its %s is no number from 0 on", name)
		return 0
	}
	return min(n, 1e9)
}

// filter reads the lists of shown and hidden tools.
func (e *entry) filter() (f Filter) {
	f.only, f.listed = e.texts("includeTools", "enabledTools", "enabled_tools", "allowedTools")
	f.but, _ = e.texts("disabledTools", "excludeTools", "disabled_tools")
	return f
}

// signsIn reports members with which the client authenticates the user to the server, or confines the server. Executors
// can do neither, so they cannot use such a server.
func (e *entry) signsIn() {
	for _, name := range []string{"oauth", "auth", "authProviderType", "headersHelper"} {
		v, there := e.given(name)
		if !there || v.Kind() == 'f' || string(v) == `"dynamic_discovery"` {
			continue
		}
		e.fail("the client signs in there (%s), which executors cannot", name)
	}
	e.given("sandbox")
	if e.flag("sandboxEnabled") {
		e.fail("the client runs it in a sandbox (sandboxEnabled), which executors do not")
	}
}

// reached reads the command or URL of the server.
func (r reader) reached(e *entry) client.Server {
	kind := e.text("type", "transport")
	switch {
	case kind == "sse":
		e.fail("it speaks the transport of 2024, sse: find out whether it has streamable HTTP, too")
	case !slices.Contains(spoken, kind):
		e.fail("its type %.32q is none that executors speak to", kind)
	}
	s := client.Server{CWD: e.text("cwd"), URL: e.text("httpUrl", "serverUrl", "url")}
	e.command(&s)
	vars := e.table("env", "environment")
	if s.Env == nil {
		s.Env = vars
	} else {
		maps.Copy(s.Env, vars)
	}
	s.Headers = e.table("headers", "http_headers")
	fill := func(text string) string {
		out, err := r.translated(text)
		e.bad = append(e.bad, err)
		return out
	}
	s.Command, s.CWD, s.URL = fill(s.Command), fill(s.CWD), fill(s.URL)
	s.Args = slices.Clone(s.Args)
	for i := range s.Args {
		s.Args[i] = fill(s.Args[i])
	}
	for _, of := range []map[string]string{s.Env, s.Headers} {
		for name := range of {
			of[name] = fill(of[name])
		}
	}
	r.variables(e, &s, fill)
	if s.URL != "" {
		s.Env, s.CWD = nil, ""
		e.address(s.URL)
	} else {
		s.CWD = r.absolute(s.CWD)
	}
	return s
}

// variables reads the envFile. Variables in env override those in the file.
func (r reader) variables(e *entry, s *client.Server, fill func(string) string) {
	path := e.text("envFile")
	if path == "" || s.URL != "" {
		return
	}
	if path = r.absolute(fill(path)); strings.HasPrefix(path, "${env:HOME}") {
		path = r.home + strings.TrimPrefix(path, "${env:HOME}")
	}
	if strings.Contains(path, "${") {
		e.fail("the path of its envFile contains a variable")
		return
	}
	all, err := readEnvFile(path)
	if err != nil {
		e.bad = append(e.bad, err)
		return
	}
	maps.Copy(all, s.Env)
	s.Env = all
}

// address checks a URL. The error does not contain it, because it may contain a credential.
func (e *entry) address(text string) {
	u, err := url.Parse(text)
	if !strings.HasPrefix(text, "${") && (err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "") {
		e.fail("its address is no http or https URL")
	}
}

// command reads a command, which may be a string, a list with the arguments, or an object.
func (e *entry) command(s *client.Server) {
	s.Args, _ = e.texts("args")
	v, there := e.given("command")
	if !there {
		return
	}
	switch v.Kind() {
	case '"':
		if json.Unmarshal(v, &s.Command) != nil {
			e.fail("its command is no text")
		}
	case '[':
		var all []string
		if err := json.Unmarshal(v, &all); err != nil || len(all) == 0 {
			e.fail("its command is an empty list, or none of texts")
			return
		}
		s.Command, s.Args = all[0], append(all[1:], s.Args...)
	case '{':
		in := entry{members: map[string]jsontext.Value{}}
		if json.Unmarshal(v, &in.members) != nil {
			e.fail("its command cannot be read")
			return
		}
		args, _ := in.texts("args")
		s.Command, s.Args, s.Env = in.text("path"), append(args, s.Args...), in.table("env")
		e.bad = append(e.bad, in.bad...)
	default:
		e.fail("its command is neither a text, a list nor an object")
	}
}

// longest is the longest timeout of a call or of the start.
const longest = 10 * time.Minute

// times reads the timeouts. It returns the timeout of a call, and sets the timeout of the start in s.
func (r reader) times(e *entry, s *client.Server) (call time.Duration) {
	start := time.Duration(e.number("startup_timeout_sec") * float64(time.Second))
	start = max(start, time.Duration(e.number("startup_timeout_ms")*float64(time.Millisecond)))
	call = time.Duration(e.number("tool_timeout_sec") * float64(time.Second))
	if v := e.members["timeout"]; v.Kind() == '{' { // opencode 2
		in := entry{members: map[string]jsontext.Value{}}
		if err := json.Unmarshal(v, &in.members); err == nil {
			start = max(start, time.Duration(in.number("startup")*float64(time.Millisecond)))
			call = time.Duration(in.number("request") * float64(time.Millisecond))
			e.bad = append(e.bad, in.bad...)
		}
		delete(e.members, "timeout")
	} else if n := e.number("timeout"); n > 0 {
		call = time.Duration(n * float64(r.unit(n)))
	}
	if start > 0 {
		s.StartMS = min(start, longest).Milliseconds()
	}
	if call < time.Second { // clients ignore shorter timeouts
		return 0
	}
	return min(call, longest)
}

// unit returns the unit of a timeout n. For an unknown client it assumes seconds if n is at most 3600.
func (r reader) unit(n float64) time.Duration {
	if r.client.seconds || r.client.Docs == "" && n <= time.Hour.Seconds() {
		return time.Second
	}
	return time.Millisecond
}
