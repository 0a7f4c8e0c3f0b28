package mcpcmd

import (
	"cmp"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus/internal/app"
	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/client"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/clientconfig"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/importer"
)

// all imports the servers of a configuration. If one fails, it continues with the others.
func (i *importing) all(cmd *cobra.Command) error {
	l, places, err := i.choice.find(i.env)
	if err != nil {
		return err
	}
	config, err := clientconfig.Read(l, places)
	if err != nil {
		return err
	}
	i.options.Hide = true
	var reports []importer.Report
	failed := 0
	for _, s := range config.Servers {
		if s.Off != "" || s.Self {
			i.warn(s, l.File, "left out: "+cmp.Or(s.Off, "it is Toolbus itself, whose tools are on the bus already"))
			continue
		}
		if len(s.Unknown) > 0 && s.Err == nil {
			i.warn(s, l.File, fmt.Sprintf("members that are not understood: %q", s.Unknown))
		}
		if s.Err == nil {
			i.options.Skip, i.options.Timeout = s.Tools.Off, s.Timeout
			s.Server.StartMS = i.start.Milliseconds()
			var report importer.Report
			if report, s.Err = importer.Import(cmd.Context(), s.Name, s.Server, i.options); s.Err == nil {
				reports = append(reports, report)
				continue
			}
		}
		failed++
		i.warn(s, l.File, s.Err.Error())
	}
	for _, note := range config.Notes {
		fmt.Fprintln(i.env.Stderr, "toolbus: "+cli.EscapeText(note))
	}
	err = errors.Join(i.show(cmd, reports), i.remind(config.Servers))
	if failed > 0 {
		err = errors.Join(err, fmt.Errorf("%d of %d servers could not be imported", failed, len(config.Servers)))
	}
	return err
}

// warn prints a warning about a server without its secrets.
func (i *importing) warn(s clientconfig.Server, file, text string) {
	text = redacted(oneLine(text), s.Server, i.options.Dir, i.options.Environ)
	fmt.Fprintf(i.env.Stderr, "toolbus: server %s of %s: %s\n", cli.EscapeCell(s.Called), file, cli.EscapeText(text))
}

// remind prints the tools that are switched off in the configuration but were imported before. An import leaves their
// manifests unchanged.
func (i *importing) remind(servers []clientconfig.Server) error {
	has, err := importer.ReadImported(i.options.Dir, app.Transports())
	if err != nil {
		return err
	}
	for _, s := range servers {
		if s.Err != nil || s.Off != "" {
			continue
		}
		for _, id := range switchedOn(s, has, s.Name) {
			fmt.Fprintf(i.env.Stderr, "toolbus: %s is switched off in the configuration, and was imported earlier: "+
				"write `status: disabled` into its manifest\n", cli.EscapeCell(id))
		}
	}
	return nil
}

// shortest is the smallest length of values that redacted hides, in bytes. Shorter values occur in any text.
const shortest = 4

// redacted returns a text without the values of a server's variables and headers, and with only the host of its URL. A
// server may print these when it fails.
func redacted(text string, s client.Server, dir string, environ []string) string {
	getenv := func(name string) (value string, ok bool) {
		for _, entry := range environ {
			if is, v, _ := strings.Cut(entry, "="); is == name {
				value, ok = v, true
			}
		}
		return value, ok
	}
	var secrets []string
	for _, one := range []client.Server{s, resolved(s, dir, getenv)} {
		if u, err := url.Parse(one.URL); err == nil && u.Host != "" {
			text = strings.NewReplacer(one.URL, u.Scheme+"://"+u.Host, u.Redacted(), u.Scheme+"://"+u.Host).Replace(text)
		}
		for _, of := range []map[string]string{one.Env, one.Headers} {
			for _, value := range of {
				secrets = append(append(secrets, oneLine(value)), strings.Fields(value)...)
			}
		}
	}
	// Replace longer secrets first, because one may begin with another.
	slices.SortFunc(secrets, func(a, b string) int { return cmp.Compare(len(b), len(a)) })
	for _, secret := range secrets {
		if len(secret) >= shortest && !strings.HasPrefix(secret, "${") {
			text = strings.ReplaceAll(text, secret, "[hidden]")
		}
	}
	return text
}

// resolved returns a server with its references replaced by their values, or unchanged if that fails.
func resolved(s client.Server, dir string, getenv func(string) (string, bool)) client.Server {
	out, err := s.Resolve(dir, getenv)
	if err != nil {
		return s
	}
	return out
}
