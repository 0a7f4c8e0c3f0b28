package main

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus/admin"
	"github.com/seed-018f16cc/toolbus/envelope"
	"github.com/seed-018f16cc/toolbus/internal/cli"
	"github.com/seed-018f16cc/toolbus/internal/policy"
)

func policyPullCmd(g *global) *cobra.Command {
	revision, force := "", false
	cmd := &cobra.Command{
		Use: "pull [DIR]", Short: "Write the documents of the policy in force into a folder",
		Args: cli.Args(0, 1, "at most one folder"),
		Long: `Writes the three documents of the policy in force, or of a revision that "policy history" lists, into DIR
(default: the current folder), byte for byte as they were pushed. Change them there, check them with "policy lint", and
push them with the --expect that the command prints. It replaces files with another content only with --force.
Needs an operator's token.

Exit codes: 0 the folder has the set, 1 the bus has no policy or a file is in the way, 11 no such revision.`,
		Example: "  toolbus policy pull ./deployment\n  toolbus policy pull ./deployment --revision 41 --force\n" +
			"  toolbus policy pull --json",
		RunE: func(cmd *cobra.Command, args []string) error {
			var named []string
			if cmd.Flags().Changed("revision") {
				named = []string{revision}
			}
			wanted, err := revisionArg(named)
			if err != nil {
				return err
			}
			return g.operating(cmd.Context(), func(c *admin.Client) error {
				p, err := pullPolicy(cmd.Context(), c, argument(args), wanted, force)
				if err != nil {
					return err
				}
				return g.print(p, p.write)
			})
		},
	}
	cmd.Flags().StringVar(&revision, "revision", "", "`REVISION` of the set (default: the one in force)")
	cmd.Flags().BoolVar(&force, "force", false, "replace files that have another content")
	completeFlag(cmd, "revision", g.completeRevisions(1))
	return cmd
}

// pulled is the result of a pull, as JSON.
type pulled struct {
	envelope.PolicyVersion
	InForce   uint64   `json:"revision_in_force"`
	Folder    string   `json:"folder"`
	Files     []string `json:"files"`              // below the folder
	Replaced  []string `json:"replaced,omitzero"`  // those of them that had another content
	Unchanged []string `json:"unchanged,omitzero"` // those of them that had the content already
}

// pullPolicy writes a revision of the policy into a folder; 0 is the one in force.
func pullPolicy(ctx context.Context, c *admin.Client, dir string, revision uint64, force bool) (p pulled, err error) {
	now, err := newestPolicy(ctx, c)
	if err != nil {
		return p, err
	}
	v, set, err := storedPolicy(ctx, c, revision)
	if err != nil {
		return p, err
	}
	d := policy.Documents(set)
	p = pulled{PolicyVersion: v, InForce: max(now.Revision, v.Revision), Folder: dir, Files: setNames()}
	if p.Unchanged, p.Replaced, err = compareFiles(dir, d); err != nil {
		return p, err
	}
	if len(p.Replaced) > 0 && !force {
		return p, inTheWay(dir, p.Replaced)
	}
	return p, replaceFiles(dir, slices.DeleteFunc(setFiles(d), func(f setFile) bool {
		return slices.Contains(p.Unchanged, f.name)
	}))
}

func (p pulled) write(w io.Writer) error {
	in := "no longer in force"
	if p.Revision == p.InForce {
		in = "in force"
	}
	_, err := fmt.Fprintf(w, "revision %d, since %s, by %s, %s\n", p.Revision, p.At.UTC().Format(time.RFC3339),
		cli.EscapeCell(p.By), in)
	for _, name := range p.Files {
		done := "wrote"
		switch {
		case slices.Contains(p.Replaced, name):
			done = "replaced"
		case slices.Contains(p.Unchanged, name):
			done = "unchanged"
		}
		if err == nil {
			_, err = fmt.Fprintf(w, "%s %s\n", done, cli.EscapeText(filepath.Join(p.Folder, name)))
		}
	}
	if folder := cli.EscapeText(quotedFolder(p.Folder)); err == nil {
		_, err = fmt.Fprintf(w, "check it with: toolbus policy lint %s --tools DIR\npush it with: toolbus policy push %[1]s "+
			"--expect %d\n", folder, p.InForce)
	}
	return err
}

// quotedFolder quotes a folder for a shell unless it is plain.
func quotedFolder(dir string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789./_-"
	if strings.Trim(dir, plain) == "" && !strings.HasPrefix(dir, "-") {
		return dir
	}
	return quoted(dir)
}

// completeRevisions completes revisions of the policy, if the command takes most arguments.
func (c *connection) completeRevisions(most int) cobra.CompletionFunc {
	return c.completeListed(most, func(ctx context.Context, own *admin.Client) (words []string, _ error) {
		all, err := own.PolicyHistory(ctx)
		for _, v := range all {
			words = append(words, word(strconv.FormatUint(v.Revision, 10), v.At.UTC().Format(time.RFC3339)+" "+v.Reason))
		}
		return words, err
	})
}
