package importer

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/Masterminds/semver/v3"
	"github.com/go-json-experiment/json"
	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/parser"

	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/call"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/client"
	"github.com/seed-018f16cc/toolbus/subjects"
)

// Change compares the current definition of a tool at its server with the approved one.
type Change struct {
	ID     string   `json:"tool_id,omitzero"`
	Server string   `json:"server"`
	Offers string   `json:"offers,omitzero"` // name of a tool that was not imported
	State  State    `json:"state"`
	Why    string   `json:"why,omitzero"`   // why the tool is left out
	Lines  []string `json:"lines,omitzero"` // diff of the definition: - approved, + current
	// ServerVersion is the current version of the server if it is another one than that of the manifest, which is then
	// Imported.
	ServerVersion string `json:"server_version,omitzero"`
	Imported      string `json:"imported_server_version,omitzero"`

	manifest *tool.Manifest
	now      client.Tool
	server   envelope.ServerInfo
	release  string // of the server, as it reports it
}

// Compare lists the tools of the servers of a folder, and compares them with the folder's manifests: those with the
// ids, or all. If a server cannot be asked or lacks a tool, the Why of the Change contains the reason. If it compares
// all, there is also a Change for each tool that a server offers and the folder does not have, with its name at the
// server in Offers.
func Compare(ctx context.Context, o Options, ids []string) ([]Change, error) {
	r, err := tool.Load(o.Dir, o.Transports...)
	if err != nil {
		return nil, err
	}
	servers, err := mcp.ReadServers(o.Dir)
	if err != nil {
		return nil, err
	}
	of := map[string][]*tool.Manifest{}
	var names []string
	had := map[string][]string{} // names of tools by server
	for _, m := range r.List() {
		e, ours := m.Endpoint.(mcp.Endpoint)
		had[e.Server] = append(had[e.Server], e.Tool)
		if !ours || e.Definition == "" || len(ids) > 0 && !slices.Contains(ids, m.ToolID) {
			continue
		}
		if of[e.Server] == nil {
			names = append(names, e.Server)
		}
		of[e.Server] = append(of[e.Server], m)
	}
	for _, id := range ids {
		m, _ := r.Get(id, "")
		if e, ours := (mcp.Endpoint{}), false; m != nil {
			if e, ours = m.Endpoint.(mcp.Endpoint); ours && e.Definition != "" {
				continue
			}
		}
		return nil, fmt.Errorf("%s has no tool %s that was imported from an MCP server", o.Dir, id)
	}
	var all []Change
	for _, name := range names {
		known, ok := servers[name]
		if !ok {
			return nil, fmt.Errorf("no server %s is in %s", name, filepath.Join(o.Dir, mcp.ServersFile))
		}
		changes, listed := o.compare(ctx, name, known, of[name])
		if all = append(all, changes...); len(ids) == 0 {
			all = append(all, offered(name, listed, had[name])...)
		}
	}
	return all, nil
}

// offered returns the tools of a server that can be imported, and are not among those that the folder has.
func offered(server string, listed []client.Tool, had []string) (all []Change) {
	for _, t := range listed {
		if slices.Contains(had, t.Name) {
			continue
		}
		if _, _, err := (source{tool: t}).files(); err == nil {
			all = append(all, Change{Server: server, Offers: t.Name, State: Offered})
		}
	}
	return all
}

// compare asks one server and compares its tools. It also returns all tools of the server.
func (o Options) compare(
	ctx context.Context, name string, s client.Server, of []*tool.Manifest,
) (all []Change, listed []client.Tool) {
	for _, m := range of {
		all = append(all, Change{ID: m.ToolID, Server: name, State: LeftOut, manifest: m})
	}
	listed, server, release, err := o.list(ctx, s)
	server.Name = name
	for i := range all {
		c := &all[i]
		e, _ := c.manifest.Endpoint.(mcp.Endpoint)
		at := slices.IndexFunc(listed, func(t client.Tool) bool { return t.Name == e.Tool })
		switch {
		case err != nil:
			c.Why = oneLine(err.Error())
		case at < 0:
			c.Why = "its server does not have it any more"
		default:
			c.now, c.server, c.release = listed[at], server, release
			c.judge(e)
		}
	}
	return all, listed
}

func (o Options) list(
	ctx context.Context, s client.Server,
) (listed []client.Tool, of envelope.ServerInfo, release string, err error) {
	conn, _, err := o.dial(ctx, s)
	if err != nil {
		return nil, of, "", err
	}
	defer conn.Close()
	_, release, _ = conn.About()
	of.Instructions = conn.Instructions()
	listed, err = list(ctx, conn)
	return listed, of, release, err
}

// judge compares the definition with the approved one, and the version of the server with that of the manifest.
func (c *Change) judge(e mcp.Endpoint) {
	definition, err := mcp.Definition(c.now)
	if err != nil {
		c.Why = oneLine(err.Error())
		return
	}
	c.State = Same
	now := call.PlainVersion(c.release)
	if had := c.manifest.ServerVersion; now != "" && had != "" && now != had {
		c.State, c.ServerVersion, c.Imported = Moved, now, had
	}
	if mcp.Digest(definition) == e.Definition {
		return
	}
	c.State = Changed
	before, _ := os.ReadFile(filepath.Join(c.manifest.Dir, mcp.DefinitionFile)) // without the file, all lines are new
	c.Lines = diff(lined(before), lined(pretty(definition)))
}

// lined formats a definition for the diff, with a line break at each line break in its texts.
func lined(definition []byte) string {
	return strings.ReplaceAll(visible(string(definition)), `\n`, "\\n\n      ")
}

// Approve updates the manifest to the current definition: the schemas, the digest, the version of the server, and each
// description that still equals the one of before. It increases the version. It makes the effect class stricter if the
// server now proposes a stricter one, and never less strict. A tool that changed nothing may change something from then
// on, if the server says so.
func (c Change) Approve() error {
	files, _, err := source{server: c.server, tool: c.now}.files()
	if err != nil {
		return err
	}
	text, err := os.ReadFile(filepath.Join(c.manifest.Dir, manifestFile))
	if err != nil {
		return err
	}
	definition, err := mcp.Definition(c.now)
	if err != nil {
		return err
	}
	if files[manifestFile], err = c.edited(text, mcp.Digest(definition)); err != nil {
		return err
	}
	return exchange(c.manifest, files)
}

// edited returns the manifest with the changed values. Everything else, with comments, stays as written.
func (c Change) edited(text []byte, digest string) ([]byte, error) {
	file, err := parser.ParseBytes(text, parser.ParseComments)
	if err != nil {
		return nil, err
	}
	was := c.approved()
	set := map[string]string{
		"$.endpoint.definition": strconv.Quote(digest), "$.semver": strconv.Quote(c.version()),
	}
	if strict := c.class(was); strict != c.manifest.Class {
		set["$.determinism"] = strconv.Quote(string(strict))
	}
	if c.manifest.ReadOnly && reads(was) && !reads(c.now) {
		set["$.read_only"] = "false"
	}
	before, now := described(c.Server, was), described(c.Server, c.now)
	if strings.TrimSpace(c.manifest.Description) == before {
		set["$.description"] = strconv.Quote(now)
	}
	if f, ok := c.manifest.Function(fn); ok && strings.TrimSpace(f.Description) == before {
		set["$.functions."+fn+".description"] = strconv.Quote(now)
	}
	release := strconv.Quote(call.PlainVersion(c.release))
	if c.release != "" && c.manifest.ServerVersion != "" {
		set["$.server_version"] = release
	}
	for at, value := range set {
		path, err := yaml.PathString(at)
		if err != nil {
			return nil, err
		}
		if err := path.ReplaceWithReader(file, strings.NewReader(value)); err != nil {
			return nil, fmt.Errorf("%s: %w", at, err)
		}
	}
	edited := strings.TrimRight(file.String(), "\n") + "\n"
	if strings.HasPrefix(edited, "{") { // a manifest that a user wrote
		return []byte(edited), nil
	}
	if c.manifest.Listed == nil {
		edited += "listed: " + listedFile + "\n"
	}
	if c.release != "" && c.manifest.ServerVersion == "" {
		edited += "server_version: " + release + "\n"
	}
	return []byte(edited), nil
}

// approved returns the approved definition.
func (c Change) approved() (t client.Tool) {
	raw, err := os.ReadFile(filepath.Join(c.manifest.Dir, mcp.DefinitionFile))
	if err != nil || json.Unmarshal(raw, &t) != nil {
		return client.Tool{}
	}
	if t.Annotations.Kind() == 'n' {
		t.Annotations = nil
	}
	return t
}

// class returns the effect class of the manifest, or the class that the server now proposes if that is stricter than
// the manifest's and than the server's former proposal.
func (c Change) class(was client.Tool) call.EffectClass {
	strictness := []call.EffectClass{call.Pure, call.Idempotent, call.SideEffectful}
	before, _ := proposed(was)
	now, _ := proposed(c.now)
	rank := func(of call.EffectClass) int { return slices.Index(strictness, of) }
	if rank(now) > rank(before) && rank(now) > rank(c.manifest.Class) {
		return now
	}
	return c.manifest.Class
}

// version returns the version of the server if it is newer than the manifest's, else the manifest's next patch version.
func (c Change) version() string {
	had, err := semver.StrictNewVersion(c.manifest.Semver)
	if err != nil { // cannot happen: the manifest was loaded
		return c.manifest.Semver
	}
	if now, err := semver.StrictNewVersion(version(c.release)); err == nil && now.GreaterThan(had) {
		return now.String()
	}
	next := had.IncPatch()
	return next.String()
}

// exchange replaces the folder of a tool by a copy with files, after the copy has been loaded as executors load it.
// Between the two renames the folder does not exist.
func exchange(m *tool.Manifest, files map[string][]byte) error {
	tmp, err := os.MkdirTemp(filepath.Dir(m.Dir), ".approve-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(tmp)
	fresh, old := filepath.Join(tmp, subjects.Token(m.ToolID)), filepath.Join(tmp, "old")
	if err := os.CopyFS(fresh, os.DirFS(m.Dir)); err != nil {
		return err
	}
	if files[outputFile] == nil {
		if err := os.Remove(filepath.Join(fresh, outputFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	for name, data := range files {
		if err := replace(filepath.Join(fresh, name), data, 0o644); err != nil {
			return err
		}
	}
	if _, err := tool.Load(tmp, mcp.Describe()); err != nil {
		return err
	}
	if err := os.Rename(m.Dir, old); err != nil {
		return err
	}
	if err := os.Rename(fresh, m.Dir); err != nil {
		return errors.Join(err, os.Rename(old, m.Dir))
	}
	return nil
}
