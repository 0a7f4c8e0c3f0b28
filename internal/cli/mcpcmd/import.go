package mcpcmd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus/internal/app"
	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/internal/tool"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/client"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/importer"
)

// importing holds the command line of import-mcp.
type importing struct {
	env     cli.Env
	options importer.Options
	name    string
	choice  choice // configuration of a client
	vars    []string
	headers []string
	start   time.Duration
	login   signIn
}

// Import returns the command that imports the tools of MCP servers.
func Import(env cli.Env) *cobra.Command {
	i := &importing{env: env}
	cmd := &cobra.Command{
		Use:   "import-mcp COMMAND [ARGUMENT...] | URL",
		Short: "Import the tools of an MCP server",
		Long: `Starts or connects to an MCP server. For each of its tools it writes a folder with a manifest into
--tools, and the command or URL of the server into servers.json there. Executors start the server from that file.
Write flags before COMMAND.

Each manifest has the effect class of the server's annotations: check it. It also has the digest of the definition:
if the server changes the tool later, executors refuse to call it until you approve the change with "toolbus tools
approve". The command does not change tools that exist.

A server with resources, prompts or completions gets one more tool, mcp::SERVER::protocol. MCP clients see it as
resources and prompts.

The server gets only the variables PATH, LANG, HOME and those of --env: NAME=VALUE, or NAME for the executor's
value. In VALUE, arguments, headers and the URL, the executor replaces ${env:NAME} and ${file:PATH} when it starts.

--login logs in at a URL that wants a token of OAuth: open the address that it prints. Executors need the file
.secrets/NAME/oauth that it writes, and renew the token themselves.

--client and --config read the servers from the configuration of an MCP client instead. Values of variables and
headers there are written to files below .secrets in --tools. Tools that the client hides are not imported. A
timeout there applies to the tools.`,
		Example: `  toolbus tools import-mcp npx -y @modelcontextprotocol/server-memory
  toolbus tools import-mcp --name docs --header 'Authorization=Bearer ${env:DOCS_TOKEN}' https://mcp.example.com/mcp
  toolbus tools import-mcp --login https://mcp.example.com/mcp
  toolbus tools import-mcp --client claude-code --scope local
  toolbus tools import-mcp --config ~/.config/agent/mcp.json`,
		RunE: func(cmd *cobra.Command, args []string) error { return i.run(cmd, args) },
	}
	f := cmd.Flags()
	f.SetInterspersed(false) // flags after COMMAND belong to COMMAND
	f.StringVar(&i.options.Dir, "tools", "tools", "folder of tools to write to")
	f.StringVar(
		&i.name,
		"name",
		"",
		"of the server: the beginning of the ids of its tools; by default as it calls itself",
	)
	i.choice.flags(cmd)
	f.StringArrayVar(&i.vars, "env", nil, "variable of the server, NAME=VALUE or NAME; may be repeated")
	f.StringArrayVar(&i.headers, "header", nil, "header of every request to a URL, NAME=VALUE; may be repeated")
	f.DurationVar(&i.start, "start-timeout", 0, "how long the server may take to answer for the first time, here and at "+
		"executors (default 2m for a COMMAND, at its first start, and 30s else)")
	i.login.flags(cmd)
	f.StringVar(&i.options.Owner, "owner", "@local", "who answers for the tools")
	f.StringVar(&i.options.Pool, "pool", "", "pool of executors that run the tools; by default that of all tools")
	return cmd
}

func (i *importing) run(cmd *cobra.Command, args []string) error {
	if err := i.check(args); err != nil {
		return err
	}
	var err error
	if i.options.Dir, err = filepath.Abs(i.options.Dir); err != nil {
		return err
	}
	if err := os.MkdirAll(i.options.Dir, 0o755); err != nil {
		return err
	}
	i.options.Environ, i.options.Version = i.env.Environ, cli.Version()
	i.options.Transports = app.Transports()
	if i.choice.named() {
		return i.all(cmd)
	}
	server, err := i.server(args)
	if err != nil {
		return err
	}
	if i.options.Login, err = i.login.function(cmd, i.env); err != nil {
		return err
	}
	server.StartMS = i.start.Milliseconds()
	report, err := importer.Import(cmd.Context(), i.name, server, i.options)
	if err != nil {
		return fmt.Errorf("import %s: %w", strings.Join(args, " "), err)
	}
	return i.show(cmd, []importer.Report{report})
}

func (i *importing) check(args []string) error {
	switch {
	case !i.choice.named() && len(args) == 0:
		return cli.Usagef("expected a command, a URL, --client with a name, or --config with a file")
	case i.choice.named() && len(args) > 0:
		return cli.Usagef("--client and --config name all servers: leave %q out", args[0])
	case i.choice.named() && len(i.name)+len(i.vars)+len(i.headers) > 0:
		return cli.Usagef("--name, --env and --header are for one server; --client and --config name all")
	case i.login.on && (i.choice.named() || !isURL(args[0]) || len(args) > 1):
		return cli.Usagef("--login is for one URL")
	case i.options.Pool != "" && !tool.ValidPool(i.options.Pool):
		return cli.Usagef("--pool %q: use lower-case letters, digits and -", i.options.Pool)
	case i.start < 0 || i.start > client.MaxStart:
		return cli.Usagef("--start-timeout is at most %v", client.MaxStart)
	case strings.TrimSpace(i.options.Owner) == "":
		return cli.Usagef("--owner is empty: name who answers for the tools, such as @team")
	}
	return nil
}

func isURL(text string) bool {
	return strings.HasPrefix(text, "http://") || strings.HasPrefix(text, "https://")
}

// server returns the server that the command line describes.
func (i *importing) server(args []string) (s client.Server, err error) {
	if isURL(args[0]) {
		if len(args) > 1 || len(i.vars) > 0 {
			return s, cli.Usagef("leave arguments and --env out: they are for a COMMAND, not for a URL")
		}
		s.URL = args[0]
		s.Headers, err = pairs("--header", i.headers, false)
		return s, err
	}
	if len(i.headers) > 0 {
		return s, cli.Usagef("leave --header out: it is for a URL, not for a COMMAND")
	}
	if s.Env, err = pairs("--env", i.vars, true); err != nil {
		return s, err
	}
	where, err := os.Getwd()
	if err != nil {
		return s, err
	}
	s.Command, s.Args, s.CWD = args[0], args[1:], where
	return s, nil
}

// pairs parses NAME=VALUE. If alone is true, it also accepts NAME, which refers to a variable of the executor.
func pairs(flag string, given []string, alone bool) (map[string]string, error) {
	all := map[string]string{}
	for _, one := range given {
		name, value, has := strings.Cut(one, "=")
		if name == "" || !has && !alone {
			return nil, cli.Usagef("%s %q is not NAME=VALUE", flag, one)
		}
		if !has {
			value = "${env:" + name + "}"
		}
		all[name] = value
	}
	return all, nil
}

// show prints the reports of the imports.
func (i *importing) show(cmd *cobra.Command, all []importer.Report) error {
	left := 0
	for _, r := range all {
		left += r.LeftOut()
	}
	if asJSON, err := cmd.Flags().GetBool("json"); err == nil && asJSON {
		return errors.Join(cli.WriteJSON(i.env.Stdout, all), leftOut(left))
	}
	for _, r := range all {
		if err := describe(i.env.Stdout, r); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintf(i.env.Stdout, "in %s; executors and dispatchers see it when they start\n%d left out\n",
		i.options.Dir, left)
	return errors.Join(err, leftOut(left))
}

// leftOut returns an error if n tools were left out.
func leftOut(n int) error {
	if n == 0 {
		return nil
	}
	return fmt.Errorf("%d tools were left out, each for the reason beside it: agents do not have them through the bus", n)
}

func describe(out io.Writer, r importer.Report) error {
	fmt.Fprintf(out, "%s: %s, MCP %s\n", r.Server, cli.EscapeCell(r.About), cli.EscapeCell(r.Protocol))
	w := tabwriter.NewWriter(out, 0, 4, 2, ' ', 0)
	for _, t := range r.Tools {
		id, why := t.ID, t.Why
		switch t.State {
		case importer.Changed:
			why = "`toolbus tools approve " + t.ID + "` shows what has changed"
		case importer.LeftOut, importer.Off:
			id = fmt.Sprintf("%.64q", t.Name)
		case importer.Same:
			why = ""
		}
		fmt.Fprintf(w, "  %s\t%s\t%s\t%s\n", id, t.State, t.Class, cli.EscapeCell(why))
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if slices.ContainsFunc(r.Tools, func(t importer.Tool) bool { return t.State == importer.Added }) {
		fmt.Fprintf(out, "  each added tool runs up to %d calls at once on an executor: see limits.concurrency_max in its "+
			"manifest\n", importer.Concurrency)
	}
	for _, t := range r.Tools {
		for _, note := range t.Notes {
			fmt.Fprintf(out, "  %s: %s\n", t.ID, cli.EscapeCell(note))
		}
	}
	return nil
}
