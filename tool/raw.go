package tool

import "github.com/go-json-experiment/json/jsontext"

// rawManifest is tool.yaml as written; Manifest is what it means.
type rawManifest struct {
	ToolID       string                 `yaml:"tool_id"`
	Semver       string                 `yaml:"semver"`
	Owner        string                 `yaml:"owner"`
	Title        string                 `yaml:"title"`
	Description  string                 `yaml:"description"`
	Tags         []string               `yaml:"tags"`
	Status       string                 `yaml:"status"`
	Determinism  string                 `yaml:"determinism"`
	Pool         string                 `yaml:"pool"`
	Transport    string                 `yaml:"transport"`
	Endpoint     rawEndpoint            `yaml:"endpoint"`
	Functions    map[string]rawFunction `yaml:"functions"`
	Capabilities rawCapabilities        `yaml:"capabilities"`
	Limits       rawLimits              `yaml:"limits"`
	RetentionS   int64                  `yaml:"retention_s"`
	AcceptRerun  bool                   `yaml:"accept_rerun_after_power_loss"`
	Errors       []rawError             `yaml:"errors"`
}

type rawEndpoint struct {
	Command []string          `yaml:"command"`
	Env     map[string]string `yaml:"env"`
	Native  string            `yaml:"native"`
}

type rawFunction struct {
	Description string       `yaml:"description"`
	Request     string       `yaml:"request"`
	Response    string       `yaml:"response"`
	Examples    []rawExample `yaml:"examples"`
}

type rawExample struct {
	Name   string         `yaml:"name"`
	Input  jsontext.Value `yaml:"input"`
	Output jsontext.Value `yaml:"output"`
}

type rawCapabilities struct {
	FS           []string `yaml:"fs"`
	NetAllowlist []string `yaml:"net_allowlist"`
	Env          []string `yaml:"env"`
	Streaming    bool     `yaml:"streaming"`
	DryRun       bool     `yaml:"dry_run"`
	Lookup       bool     `yaml:"lookup"`
}

type rawLimits struct {
	TimeoutMSDefault int64 `yaml:"timeout_ms_default"`
	TimeoutMSMax     int64 `yaml:"timeout_ms_max"`
	MemoryMBMax      int64 `yaml:"memory_mb_max"`
	ConcurrencyMax   int64 `yaml:"concurrency_max"`
	OutputBytesMax   int64 `yaml:"output_bytes_max"`
	StderrBytesMax   int64 `yaml:"stderr_bytes_max"`
}

type rawError struct {
	Code       string `yaml:"code"`
	Class      string `yaml:"class"`
	HTTPStatus int64  `yaml:"http_status"`
	Message    string `yaml:"message"`
	Fix        string `yaml:"fix"`
}
