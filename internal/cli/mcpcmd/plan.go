package mcpcmd

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"text/tabwriter"

	"github.com/seed-018f16cc/toolbus/internal/app"
	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/clientconfig"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/importer"
)

// plan lists which servers of a configuration install replaces or keeps.
type plan struct {
	File     string   `json:"file"`
	Client   string   `json:"client,omitzero"`
	Member   []string `json:"member"` // path of the object that holds the servers
	Replaced []fate   `json:"replaced"`
	Kept     []fate   `json:"kept"`
	Notes    []string `json:"notes,omitzero"`
	Written  bool     `json:"written"`
	Copy     string   `json:"copy,omitzero"` // copy of the former file

	inUse int // kept servers that the client uses
}

// fate describes how install treats one server.
type fate struct {
	Name   string `json:"name"`             // name in the configuration
	Server string `json:"server,omitzero"`  // name in the folder of tools
	Tools  int    `json:"tools,omitzero"`   // number of imported tools
	Why    string `json:"reason,omitempty"` // why it is kept
}

// planned reads a configuration and the folder of tools.
func planned(l clientconfig.Location, p clientconfig.Places, tools string) (*plan, error) {
	config, err := clientconfig.Read(l, p)
	if err != nil {
		return nil, err
	}
	has, err := importer.ReadImported(tools, app.Transports())
	if err != nil {
		return nil, fmt.Errorf("find out what was imported: %w", err)
	}
	out := &plan{
		File: l.File, Client: l.Client.Name, Member: config.Member, Notes: config.Notes, Replaced: []fate{}, Kept: []fate{},
	}
	for _, s := range config.Servers {
		f := decided(s, has)
		switch {
		case f.Why == "":
			out.Replaced = append(out.Replaced, f)
			continue
		case s.Off == "":
			out.inUse++
		}
		out.Kept = append(out.Kept, f)
	}
	return out, nil
}

// decided returns what install does with a server. It replaces an entry toolbus that starts this program.
func decided(s clientconfig.Server, has *importer.Imported) fate {
	f := fate{Name: s.Called}
	switch {
	case s.Self && s.Called == clientconfig.Toolbus:
		return f
	case s.Off != "":
		f.Why = s.Off
	case s.Err != nil:
		f.Why = "it cannot be imported: " + s.Err.Error()
	default:
		found, err := has.Find(s.Name, s.Server)
		if err != nil {
			f.Why = err.Error()
			break
		}
		f.Server, f.Tools = found, len(has.Tools(found))
		if on := switchedOn(s, has, found); len(on) > 0 {
			f.Why = fmt.Sprintf("%s is switched off there, and not on the bus: write `status: disabled` into its manifest",
				on[0])
		}
	}
	return f
}

// switchedOn returns the ids of imported tools that can be called although the client hides them.
func switchedOn(s clientconfig.Server, has *importer.Imported, server string) (ids []string) {
	for _, m := range has.Tools(server) {
		if e, ok := m.Endpoint.(mcp.Endpoint); ok && m.Callable() && !e.Methods && s.Tools.Off(e.Tool) {
			ids = append(ids, m.ToolID)
		}
	}
	slices.Sort(ids)
	return ids
}

// taken returns the names of the replaced servers.
func (p *plan) taken() (names []string) {
	for _, f := range p.Replaced {
		names = append(names, f.Name)
	}
	return names
}

// check returns an error if the client uses servers and none of them can be replaced.
func (p *plan) check(tools string, source string) error {
	if len(p.Replaced) > 0 || p.inUse == 0 {
		return nil
	}
	return fmt.Errorf("none of the %d servers in %s has tools in the folder %s, so nothing is replaced: "+
		"import them first with `toolbus tools import-mcp --tools %s %s`", p.inUse, p.File, tools, tools, source)
}

// show prints the replaced and the kept servers.
func (p *plan) show(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	for _, f := range p.Replaced {
		what := "replaced by its entry of now"
		if f.Server != "" {
			what = fmt.Sprintf("replaced by %d tools of server %s", f.Tools, f.Server)
		}
		fmt.Fprintf(w, "  %s\t%s\n", cli.EscapeCell(f.Name), what)
	}
	for _, f := range p.Kept {
		fmt.Fprintf(w, "  %s\tkept: %s\n", cli.EscapeCell(f.Name), cli.EscapeCell(oneLine(f.Why)))
	}
	err := w.Flush()
	for _, note := range p.Notes {
		_, bad := fmt.Fprintln(out, "  note: "+cli.EscapeCell(note))
		err = errors.Join(err, bad)
	}
	return err
}
