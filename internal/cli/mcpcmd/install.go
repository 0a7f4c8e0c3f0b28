package mcpcmd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/clientconfig"
)

// installing holds the command line of install.
type installing struct {
	env     cli.Env
	choice  choice
	tools   string
	write   bool
	json    bool
	command string // command that the entry starts
	args    []string
}

func install(env cli.Env) *cobra.Command {
	i := &installing{env: env}
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Replace the servers of an MCP client by the bus",
		Args:  cli.NoArgs,
		Long: `Prints the entry by which an MCP client starts "toolbus mcp", and which of the client's servers it replaces.
With --write it is written into the client's configuration. Import the servers first, with "toolbus tools import-mcp".

It replaces only servers that have tools in the folder of tools, and that have the same command, arguments, URL,
variables and headers there. It keeps every other server, and says why. The former file is kept beside the new one, for
"toolbus mcp uninstall". The entry reaches the bus as this command line does. The configuration of Codex is TOML, which
is not changed: paste the lines that are printed.

The exit code is 1 if the client uses servers and none of them can be replaced.`,
		Example: `  toolbus mcp install
  toolbus mcp install --client claude-desktop --write
  toolbus mcp install --client cursor --scope project --write
  toolbus mcp install --config ./mcp.json --context production --write`,
		RunE: func(cmd *cobra.Command, _ []string) (err error) {
			if i.command, i.args, err = entryFor(env, cmd.Flags()); err != nil {
				return err
			}
			if f := cmd.Flags().Lookup("json"); f != nil {
				i.json = f.Value.String() == "true"
			}
			return i.run()
		},
	}
	i.choice.flags(cmd)
	cmd.Flags().StringVar(&i.tools, "tools", "tools", "folder of tools that the servers were imported into")
	cmd.Flags().BoolVar(&i.write, "write", false, "write it into the configuration")
	return cmd
}

func (i *installing) run() error {
	l, places, err := i.choice.find(i.env)
	switch {
	case err != nil:
		return err
	case !i.choice.named() && i.write:
		return unnamed()
	case !i.choice.named():
		return i.snippet(l, []string{"mcpServers"})
	case l.Client.Form == clientconfig.TOML:
		return i.lines(l)
	}
	p, err := planned(l, places, i.tools)
	if err != nil {
		return err
	}
	if !i.write {
		return i.preview(l, p)
	}
	if err := p.check(i.tools, i.choice.args()); err != nil {
		return errors.Join(i.show(i.env.Stderr, p), err)
	}
	if err := clientconfig.Install(l, p.taken(), i.command, i.args); err != nil {
		return err
	}
	p.Written, p.Copy = true, l.Copy()
	if !i.json {
		fmt.Fprintf(i.env.Stdout, "%s has the tools of the bus; what was there is in %s\n", l.File, l.Copy())
	}
	return i.show(i.env.Stdout, p)
}

// args returns the flags that name the configuration.
func (c *choice) args() string {
	if c.client == "" {
		return "--config " + c.file
	}
	if c.scope == string(clientconfig.User) {
		return "--client " + c.client
	}
	return "--client " + c.client + " --scope " + c.scope
}

// show prints which servers are replaced or kept. It prints JSON always to standard output.
func (i *installing) show(out io.Writer, p *plan) error {
	if i.json {
		return cli.WriteJSON(i.env.Stdout, p)
	}
	return p.show(out)
}

// snippet prints a configuration with only the entry.
func (i *installing) snippet(l clientconfig.Location, path []string) error {
	text, err := clientconfig.Snippet(l, path, i.command, i.args)
	if err == nil {
		_, err = i.env.Stdout.Write(text)
	}
	return err
}

// preview prints the entry, and the changes that --write would make.
func (i *installing) preview(l clientconfig.Location, p *plan) error {
	if i.json {
		return i.show(i.env.Stdout, p)
	}
	fmt.Fprintf(i.env.Stderr, "the entry for %s; --write writes it there:\n", l.File)
	if err := i.snippet(l, p.Member); err != nil {
		return err
	}
	return p.show(i.env.Stderr)
}

// lines prints the entry as TOML, for a file that this command does not edit.
func (i *installing) lines(l clientconfig.Location) error {
	command, err := json.Marshal(i.command)
	if err != nil {
		return err
	}
	args, err := json.Marshal(i.args)
	if err != nil {
		return err
	}
	// JSON strings without HTML escapes are valid TOML.
	text := strings.NewReplacer(`\u003c`, "<", `\u003e`, ">", `\u0026`, "&").Replace(fmt.Sprintf(
		"[mcp_servers.%s]\ncommand = %s\nargs = %s\ntool_timeout_sec = 600\n", clientconfig.Toolbus, command, args))
	if _, err := io.WriteString(i.env.Stdout, text); err != nil {
		return err
	}
	advice := fmt.Sprintf("paste these lines into %s, and remove the servers there whose tools were imported", l.File)
	if i.write {
		return fmt.Errorf("%s is TOML and was not changed: %s", l.File, advice)
	}
	_, err = fmt.Fprintln(i.env.Stderr, advice)
	return err
}

// entryFor returns a command that starts this program with access to the same bus.
func entryFor(env cli.Env, given *pflag.FlagSet) (command string, args []string, err error) {
	if command, err = os.Executable(); err != nil {
		return "", nil, err
	}
	args = []string{"mcp"}
	// A client starts the program without these variables.
	for flag, value := range map[string]string{"server": env.URL, "context": env.Context, "credentials": env.Credentials} {
		if value != "" && !given.Changed(flag) {
			if err := given.Set(flag, value); err != nil {
				return "", nil, err
			}
		}
	}
	given.Visit(func(f *pflag.Flag) {
		value := f.Value.String()
		switch f.Name {
		case "client", "scope", "config", "tools", "write", "json":
			return
		case "credentials", "tls-ca", "tls-cert", "tls-key":
			path, bad := filepath.Abs(value)
			value, err = path, errors.Join(err, bad)
		}
		args = append(args, "--"+f.Name, value)
	})
	return command, args, err
}

// oneLine joins the lines of a text, such as joined errors, with semicolons.
func oneLine(text string) string {
	return strings.Join(strings.Fields(strings.ReplaceAll(strings.TrimSpace(text), "\n", "; ")), " ")
}
