package clientconfig_test

import (
	"path/filepath"
	"runtime"
	"time"

	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/client"
	"github.com/seed-018f16cc/toolbus/internal/tool/mcp/clientconfig"
)

// settings is a path below the folder that applications have for their settings.
func settings(path string) string {
	if runtime.GOOS == "darwin" {
		return filepath.Join("Library", "Application Support", path)
	}
	return filepath.Join(".config", path)
}

type table = map[string]string

// expected returns the servers of a fixture, by name.
func expected(f fixture, p clientconfig.Places) map[string]told {
	command := func(name string, args []string, env table) client.Server {
		return client.Server{Command: name, Args: args, Env: env, CWD: p.Project}
	}
	off := told{Why: "disabled there"}
	switch f.name {
	case "claude-code.json":
		if f.scope == clientconfig.Local {
			return map[string]told{"memory": {Server: command("memory", nil, nil)}}
		}
		return map[string]told{
			"files": {Server: command("npx", []string{"-y", "@modelcontextprotocol/server-filesystem", "${env:HOME}/work"},
				table{"LOG": "${env:LOG:-off}", "TOKEN": "canary-env"}), Timeout: 90 * time.Second},
			"sentry":   {Why: "signs in there (oauth)"},
			"internal": {Why: "signs in there (headersHelper)"},
			"docs": {Server: client.Server{
				URL: "https://docs.example.com/mcp", Headers: table{"Authorization": "Bearer ${env:DOCS_TOKEN}"}}},
		}
	case "claude-code-project.json":
		return map[string]told{
			"db": {Server: command("./bin/db", []string{"--read-only"}, table{"URL": "${env:DB_URL}"}),
				Unknown: []string{"another", "futureMember"}},
			"old": {Why: "the transport of 2024"},
		}
	case "claude-desktop.json":
		return map[string]told{"filesystem": {Server: command("npx",
			[]string{"-y", "@modelcontextprotocol/server-filesystem", "/Users/ada/Desktop"}, nil)}}
	case "cursor.json":
		return map[string]told{
			"files": {Server: command("files", []string{"${env:HOME}/work"}, table{"KEY": "canary-env"})},
			"web": {Server: client.Server{
				URL: "https://mcp.example.com/mcp", Headers: table{"Authorization": "Bearer ${env:WEB_TOKEN}"}}},
			"signs": {Why: "signs in there (auth)"},
		}
	case "cursor-project.json":
		return map[string]told{"db": {Server: command("db", []string{p.Project + "/db.sqlite"},
			table{"TOKEN": "canary-file", "MODE": "ro", "NAME": "a b", "LINES": "a\nb"})}}
	case "vscode.json":
		return map[string]told{
			"asks":   {Why: "only the client knows ${input:key}"},
			"memory": {Server: command("npx", []string{"-y", "@modelcontextprotocol/server-memory"}, nil)},
			"caged":  {Why: "sandbox"},
			"socket": {Why: "no http or https URL"},
		}
	case "vscode-project.json":
		return map[string]told{"db": {Server: command("db", []string{p.Project},
			table{"TOKEN": "canary-file", "MODE": "rw", "NAME": "a b", "LINES": "a\nb"})}}
	case "vscode-settings.json":
		return map[string]told{"old": {Server: command("old", nil, nil)}}
	}
	return expectedMore(f, p, command, off)
}

func expectedMore(
	f fixture, p clientconfig.Places, command func(string, []string, table) client.Server, off told,
) map[string]told {
	switch f.name {
	case "windsurf.json":
		return map[string]told{
			"github": {Server: command("github", []string{"stdio"}, table{"TOKEN": "${file:/run/github.token}"}),
				Off: []string{"delete_repository"}},
			"off": off,
			"remote": {Server: client.Server{
				URL: "https://mcp.example.com/mcp", Headers: table{"X-Key": "canary-header"}}},
		}
	case "zed.json":
		return map[string]told{
			"local-mcp-server": {Server: command("local", []string{"arg-1", "arg-2"}, nil), Timeout: 2 * time.Minute},
			"older":            {Server: command("older", []string{"1"}, table{"A": "b"})},
			"extension":        {Why: "either a command or a url", Unknown: []string{"settings"}},
			"off":              off,
		}
	case "gemini-cli.json":
		python := command("python", []string{"-m", "tools", "${env:PORT}"},
			table{"KEY": "${env:EXTERNAL_KEY}", "B": "${env:OTHER}"})
		python.CWD = filepath.Join(p.Project, "mcp")
		return map[string]told{
			"pythonTools": {Server: python, Timeout: 15 * time.Second,
				Off: []string{"delete_repository", "get_me", "list_secrets", "delete_x"}},
			"http": {Server: client.Server{
				URL: "http://localhost:3000/mcp", Headers: table{"Authorization": "Bearer canary-header"}}},
			"google":   {Why: "signs in there (authProviderType)"},
			"excluded": {Why: "mcp.excluded names it"},
		}
	case "opencode.jsonc":
		secret := filepath.Join(p.Config, "opencode", "secret.txt")
		if f.scope == clientconfig.Project {
			secret = filepath.Join(p.Project, "secret.txt")
		}
		return map[string]told{
			"my-local": {Server: command("npx", []string{"-y", "my-mcp-command"},
				table{"KEY": "${env:MY_KEY:-}", "FILE": "${file:" + secret + "}"}),
				Timeout: 20 * time.Second, Off: []string{"delete_repository", "delete_x"}},
			"jira": off,
			"open": {Server: client.Server{URL: "https://open.example.com/mcp", Headers: table{"K": "${env:K:-}"}}},
		}
	case "opencode-2.jsonc":
		everything := command("npx", []string{"-y", "@modelcontextprotocol/server-everything"}, table{"LOG_LEVEL": "info"})
		everything.StartMS = 60_000
		return map[string]told{"everything": {Server: everything, Timeout: 30 * time.Second}, "off": off}
	}
	return nil
}
