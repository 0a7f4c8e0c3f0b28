package mcpcli

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/seed-018f16cc/toolbus/internal/cli"
)

// suffix is what the name of a former configuration ends with.
const suffix = ".before-toolbus"

// choice is the flags that name a configuration.
type choice struct {
	client, file string
}

func (c *choice) flags(cmd *cobra.Command) {
	cmd.Flags().StringVar(&c.client, "client", "", "agent whose configuration it is: "+names())
	cmd.Flags().StringVar(&c.file, "config", "", "`FILE` with the configuration of any other")
}

// find returns the configuration, and the member for servers that it has if it has none yet. file is "" where none is
// named.
func (c *choice) find(env cli.Env) (file, key string, err error) {
	switch {
	case c.client != "" && c.file != "":
		return "", "", cli.Usagef("name a client or a configuration, and not both")
	case c.client != "":
		of, err := clientOf(c.client)
		if err != nil {
			return "", "", err
		}
		file, key = of.path(env), of.key
	default:
		file, key = c.file, keys()[0]
	}
	if real, err := filepath.EvalSymlinks(file); file != "" && err == nil {
		file = real
	}
	return file, key, nil
}

func install(env cli.Env) *cobra.Command {
	c, write := &choice{}, false
	cmd := &cobra.Command{
		Use:   "install",
		Short: "Put the tools of the bus in the place of an agent's own MCP servers",
		Args:  cli.NoArgs,
		Long: `Prints the one entry that an agent on a desktop or in an editor needs for the tools of the bus, in the place of
servers of its own: import these first, with "toolbus tools import-mcp --config". With --write it is written, and what
was there is kept beside it, for "toolbus mcp uninstall". The entry reaches the bus as this command line does.`,
		Example: `  toolbus mcp install
  toolbus mcp install --client claude-desktop --write
  toolbus mcp install --config ./mcp.json --context production --write`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			file, key, err := c.find(env)
			if err != nil {
				return err
			}
			entry, err := entryFor(env, cmd.Flags())
			if err != nil {
				return err
			}
			if !write {
				return show(env, file, key, entry)
			}
			if file == "" {
				return cli.Usagef(
					"say whose configuration it is to be written to, with --client or --config; known clients: %s",
					names(),
				)
			}
			return put(env, file, key, entry)
		},
	}
	c.flags(cmd)
	cmd.Flags().BoolVar(&write, "write", false, "write it into the configuration")
	return cmd
}

// name is that of this program among the servers of an agent.
const name = "toolbus"

// server is the entry of a server in a configuration.
type server struct {
	Type    string   `json:"type"`
	Command string   `json:"command"`
	Args    []string `json:"args"`
}

// entryFor returns the servers of an agent whose only one is this program, reaching the bus as it does now.
func entryFor(env cli.Env, given *pflag.FlagSet) ([]byte, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	args := []string{"mcp"}
	// What the environment says here, it does not say to a program that an agent starts.
	for flag, value := range map[string]string{"server": env.URL, "context": env.Context, "credentials": env.Credentials} {
		if value != "" && !given.Changed(flag) {
			if err := given.Set(flag, value); err != nil {
				return nil, err
			}
		}
	}
	given.Visit(func(f *pflag.Flag) {
		value := f.Value.String()
		switch f.Name {
		case "client", "config", "write", "json":
			return
		case "credentials", "tls-ca", "tls-cert", "tls-key":
			path, bad := filepath.Abs(value)
			value, err = path, errors.Join(err, bad)
		}
		args = append(args, "--"+f.Name, value)
	})
	if err != nil {
		return nil, err
	}
	return json.MarshalIndent(map[string]server{name: {"stdio", self, args}}, "  ", "  ")
}

// show prints the entry.
func show(env cli.Env, file, key string, entry []byte) error {
	if file != "" {
		fmt.Fprintf(env.Stderr, "in %s; --write writes it:\n", file)
	}
	_, err := fmt.Fprintf(env.Stdout, "{\n  %q: %s\n}\n", key, entry)
	return err
}

// put writes the entry in the place of the servers in a file, which is kept.
func put(env cli.Env, file, key string, entry []byte) error {
	former, mode, err := read(file)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(file + suffix); err == nil {
		return fmt.Errorf("%s is there already: `toolbus mcp uninstall` puts it back first", file+suffix)
	}
	now, err := replaced(former, key, entry)
	if err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
		return err
	}
	if err := replace(file+suffix, former, mode); err != nil {
		return err
	}
	if err := replace(file, now, mode); err != nil {
		return errors.Join(err, os.Remove(file+suffix))
	}
	fmt.Fprintf(env.Stdout, "%s has the tools of the bus; what was there is in %s\n", file, file+suffix)
	return nil
}

// read returns a configuration; one that is not there yet is empty.
func read(file string) (text []byte, mode fs.FileMode, err error) {
	info, err := os.Lstat(file) // a link that leads anywhere was followed before
	if errors.Is(err, fs.ErrNotExist) {
		return nil, 0o600, nil
	}
	switch {
	case err != nil:
		return nil, 0, err
	case info.Mode()&fs.ModeSymlink != 0:
		return nil, 0, fmt.Errorf("%s is a link to a file that is not there: make that, or remove the link", file)
	case !info.Mode().IsRegular():
		return nil, 0, fmt.Errorf("%s is no file that could be a configuration", file)
	case info.Mode().Perm()&0o200 == 0:
		return nil, 0, fmt.Errorf("%s is read-only: whatever else writes it has to have the entry, or make it writable", file)
	}
	text, err = os.ReadFile(file)
	return text, info.Mode().Perm(), err
}

// replace writes a file all at once.
func replace(file string, text []byte, mode fs.FileMode) error {
	tmp, err := os.CreateTemp(filepath.Dir(file), "."+filepath.Base(file)+".*")
	if err != nil {
		return err
	}
	_, err = tmp.Write(text)
	err = errors.Join(err, tmp.Chmod(mode), tmp.Close())
	if err == nil {
		err = os.Rename(tmp.Name(), file)
	}
	if err != nil {
		err = errors.Join(err, os.Remove(tmp.Name()))
	}
	return err
}

func uninstall(env cli.Env) *cobra.Command {
	c, force := &choice{}, false
	cmd := &cobra.Command{
		Use:   "uninstall",
		Short: "Put an agent's own MCP servers back",
		Args:  cli.NoArgs,
		Long: `Puts the servers back that "toolbus mcp install --write" has taken out of a configuration. Whatever else was
changed in it since stays, as agents keep settings beside their servers. Where servers were changed it is left alone;
with --force it becomes what it was before, and what was changed is gone.`,
		Example: "  toolbus mcp uninstall --client claude-desktop\n  toolbus mcp uninstall --config ./mcp.json",
		RunE: func(*cobra.Command, []string) error {
			file, key, err := c.find(env)
			if err != nil {
				return err
			}
			if file == "" {
				return cli.Usagef(
					"say whose configuration it is, with --client or --config; known clients: %s",
					names(),
				)
			}
			return putBack(env, file, key, force)
		},
	}
	c.flags(cmd)
	cmd.Flags().BoolVar(&force, "force", false, "also where the configuration was changed since")
	return cmd
}

// putBack makes the former servers those that are used.
func putBack(env cli.Env, file, key string, force bool) error {
	former, mode, err := read(file + suffix)
	if err != nil {
		return err
	}
	if _, err := os.Lstat(file + suffix); errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("there is no %s: nothing was installed there", file+suffix)
	}
	now, _, err := read(file)
	if err != nil {
		return err
	}
	text, whole := former, force || bytes.Equal(former, now) || installed(former, now, key)
	if !whole {
		if text, err = restored(former, now); err != nil {
			return fmt.Errorf(
				"%s: %w: look what of it is wanted, and put %s back with --force", file, err, file+suffix)
		}
	}
	if whole && len(former) == 0 {
		err = errors.Join(os.Remove(file), os.Remove(file+suffix))
	} else if err = replace(file, text, mode); err == nil {
		err = os.Remove(file + suffix)
	}
	if err != nil {
		return err
	}
	if !whole {
		fmt.Fprintf(env.Stdout, "%s has its servers back, and what else was changed in it since\n", file)
		return nil
	}
	fmt.Fprintf(env.Stdout, "%s is as it was\n", file)
	return nil
}

// installed reports whether a configuration is a former one with its servers replaced, and nothing else changed.
func installed(former, now []byte, key string) bool {
	found, _, err := find(now)
	if err != nil || len(found) != 1 || !ours(now[found[0].value:found[0].end]) {
		return false
	}
	as, err := replaced(former, key, now[found[0].value:found[0].end])
	return err == nil && bytes.Equal(as, now)
}
