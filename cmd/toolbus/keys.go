package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/internal/deployment"
)

func keysCmd(g *global) *cobra.Command {
	cmd := cli.Group(&cobra.Command{
		Use: "keys", Short: "Create the secrets and server configurations of a deployment", GroupID: "operate",
		Example: "  toolbus keys init ./deployment --profile single-durable",
	})
	cmd.AddCommand(keysInitCmd(g), keysServersCmd(g))
	return cmd
}

func keysInitCmd(g *global) *cobra.Command {
	plan, tools := deployment.Plan{}, ""
	cmd := &cobra.Command{
		Use: "init DIR", Short: "Create the secrets and server configurations of a new deployment",
		Args: cli.Args(1, 1, "a folder"),
		Long: `Writes into DIR:

  keys/           the secrets, for --secrets-dir of dispatchers; only their user may read them
  operator.token  the credential of the first operator, who issues all others
  NAME.conf       a configuration for each NATS server, without secrets
  tls/            a certificate authority, and certificates for each server and for clients, if a --host is not on
                  loopback or --tls is given
  policy/, tools/tool_registry.yaml
                  a policy that allows all tools, if --tools is given

Dispatchers refuse calls until the bus has a policy: "toolbus policy push DIR" puts this one in force.

It replaces no file. Profiles: single is one server; standard is three servers, each write is on two of them.
single-durable and durable are the same, and each write is on disk before it is acknowledged: dispatchers with
"--sync always" then admit calls of side-effectful tools.`,
		Example: `  toolbus keys init ./deployment --profile single-durable --tools ./tools
  toolbus keys init ./deployment --profile durable --host nats-1.example:4222 --host nats-2.example:4222 \
    --host nats-3.example:4222 --etc /etc/toolbus --store-dir /var/lib/toolbus`,
		RunE: func(_ *cobra.Command, args []string) error { return g.initKeys(plan, tools, args[0]) },
	}
	cmd.Flags().StringVar(&plan.Profile, "profile", "single",
		"single, single-durable, standard or durable")
	cmd.Flags().StringVar(&plan.Deployment, "name", "toolbus",
		"name of the deployment; its tokens are valid only there")
	cmd.Flags().StringVar(&tools, "tools", "",
		"`DIR` with one folder for each tool: also write a policy that allows all of them")
	placeFlags(cmd, &plan)
	return cmd
}

// placeFlags adds the flags for the hosts and folders of servers.
func placeFlags(cmd *cobra.Command, plan *deployment.Plan) {
	f := cmd.Flags()
	f.StringSliceVar(&plan.Hosts, "host", nil,
		"`HOST:PORT` where a server listens for clients; repeat it for each server. Servers reach each other "+
			"2000 ports above it (default: 127.0.0.1, from port 4222 on)")
	f.BoolVar(&plan.Encrypted, "tls", false,
		"encrypt connections on loopback, too; others always are")
	f.StringVar(&plan.Etc, "etc", "",
		"`DIR` that these files will have on the servers' machines (default: the argument DIR)")
	f.StringVar(&plan.Store, "store-dir", "",
		"`DIR` for streams and logs on the servers' machines (default: store below the argument DIR)")
}

func keysServersCmd(g *global) *cobra.Command {
	plan := deployment.Plan{}
	cmd := &cobra.Command{
		Use: "servers DIR", Short: "Write the server configurations again, after an upgrade",
		Args: cli.Args(1, 1, "a folder"),
		Long: `Replaces the configuration of each NATS server in DIR, a folder of "toolbus keys init", by one of this
build. Give the --host, --tls, --etc and --store-dir that "keys init" was given: without a flag for it, the command
changes no address, folder or certificate of a server, but lists what would change. DIR has the profile and the name.
Secrets, certificates and credentials do not change. Then restart the servers with the new configurations, one by one.`,
		Example: `  toolbus keys servers ./deployment
  toolbus keys servers ./deployment --host 127.0.0.1:23222 --store-dir /var/lib/toolbus`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return g.rewriteServers(plan, args[0], cmd.Flags().Changed)
		},
	}
	placeFlags(cmd, &plan)
	return cmd
}

func (g *global) rewriteServers(plan deployment.Plan, dir string, given func(flag string) bool) error {
	dir, makeStore, err := placed(&plan, dir)
	if err != nil {
		return err
	}
	files, err := plan.Rewrite(dir, given)
	if err == nil {
		err = makeStore()
	}
	if err != nil {
		return err
	}
	said, names := []string{}, []string{}
	for _, f := range files {
		names = append(names, f.Name)
		said = append(said, "server:  nats-server -c "+filepath.Join(dir, f.Name))
	}
	return g.say(map[string]any{"dir": dir, "files": names}, strings.Join(said, "\n"))
}

// placed sets the folders of a plan that flags do not give, and returns the absolute path of dir. makeStore creates the
// folder of the streams unless a flag gives it, because a server opens its log file there before it creates the folder.
func placed(plan *deployment.Plan, dir string) (in string, makeStore func() error, err error) {
	if in, err = filepath.Abs(dir); err != nil {
		return "", nil, err
	}
	if plan.Etc == "" {
		plan.Etc = in
	}
	if plan.Store != "" { // a server may start in another folder
		plan.Store, err = filepath.Abs(plan.Store)
		return in, func() error { return nil }, err
	}
	plan.Store = filepath.Join(in, "store")
	return in, func() error { return os.MkdirAll(plan.Store, 0o700) }, nil
}

func (g *global) initKeys(plan deployment.Plan, tools, dir string) error {
	dir, makeStore, err := placed(&plan, dir)
	if err != nil {
		return err
	}
	allow, err := policyOf(tools)
	if err != nil {
		return err
	}
	url, err := plan.URL()
	if err != nil {
		return usagef("%v", err)
	}
	files, err := plan.Write(dir)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%w\nthe folder has the secrets of a deployment: keep them, and name another folder. New "+
			"configurations of its servers come from `toolbus keys servers`", err)
	}
	if err == nil {
		err = makeStore()
	}
	if err != nil {
		return err
	}
	operator, err := firstCredential(dir)
	if err != nil {
		return err
	}
	set, next, err := allow(dir)
	if err != nil {
		return err
	}
	said := "secrets: " + filepath.Join(dir, "keys") + "\noperator: " + operator + " (its credential: --credentials)"
	if _, err := os.Stat(plan.Store); err != nil { // of another machine, or not made yet
		said += "\nbefore:  mkdir -p " + plan.Store + " (a server does not start without it)"
	}
	names := []string{}
	for _, f := range files {
		names = append(names, f.Name)
		if filepath.Ext(f.Name) == ".conf" {
			said += "\nserver:  nats-server -c " + filepath.Join(dir, f.Name) + "\nlog:     " +
				filepath.Join(plan.Store, strings.TrimSuffix(f.Name, ".conf")+".log") + " (why it does not start, too)"
		}
	}
	reach := " --server " + url + clientTLS(dir, files)
	said += "\ndispatcher: dispatcher --secrets-dir " + filepath.Join(dir, "keys") + reach
	if tools != "" {
		if tools, err = filepath.Abs(tools); err != nil {
			return err
		}
		said += " --tools " + tools
		next += reach + " --credentials " + operator
	}
	if strings.HasSuffix(plan.Profile, "durable") {
		said += " --sync always"
	}
	names = append(names, set...)
	return g.say(map[string]any{"dir": dir, "url": url, "files": names, "operator": operator},
		said+"\nbus:     "+url+"\npolicy:  "+next)
}

// clientTLS returns the flags with which a process uses the certificates in the files of a deployment, or "" without.
func clientTLS(dir string, files []deployment.File) string {
	if !slices.ContainsFunc(files, func(f deployment.File) bool { return f.Name == "tls/client.crt" }) {
		return ""
	}
	in := func(name string) string { return filepath.Join(dir, "tls", name) }
	return " --tls-ca " + in("ca.crt") + " --tls-cert " + in("client.crt") + " --tls-key " + in("client.key")
}

// policyOf loads the tools of a folder. The returned function writes a policy for them into the folder of a deployment,
// unless tools is "", and returns the names of its files and what to do next.
func policyOf(tools string) (allow func(dir string) (written []string, next string, err error), err error) {
	if tools == "" {
		return func(string) ([]string, string, error) { return nil, "write one with toolbus policy init", nil }, nil
	}
	all, err := policyFolders{tools: tools}.manifests()
	if err != nil {
		return nil, err
	}
	return func(dir string) ([]string, string, error) {
		if _, err := writePolicy(dir, all, false); err != nil {
			return nil, "", fmt.Errorf("the secrets are written, the policy is not; write it with `toolbus policy init %s "+
				"--tools %s`: %w", quotedFolder(dir), quotedFolder(tools), err)
		}
		return setNames(), "toolbus policy push " + dir, nil
	}, nil
}
