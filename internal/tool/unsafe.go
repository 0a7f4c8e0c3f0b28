package tool

import (
	"cmp"
	"context"
	"fmt"
	"net/url"
	"path"
	"regexp"
	"slices"
	"strings"
	"unicode"

	"github.com/go-json-experiment/json/jsontext"

	"github.com/seed-018f16cc/toolbus/internal/encoding/ijson"
	"github.com/seed-018f16cc/toolbus/internal/encoding/jsonschema"
)

// Unsafe returns the addresses, paths and commands in an input of f that no tool gets. The schema of f declares them
// by format. It also returns the members that differ from a declared one by case alone. input must be valid. It
// changes nothing: what is unsafe is refused, and never rewritten. A path may be absolute only in one of the folders.
// An input that is not checked when ctx ends is unsafe. If there are more than ijson.MaxViolations, Unsafe returns one
// more than that.
func (f *Function) Unsafe(
	ctx context.Context, input jsontext.Value, folders []string,
) (found []jsonschema.Violation) {
	all, err := f.Request.Formatted(ctx, input)
	if err != nil {
		const why = "cannot be checked: the schema tries it in too many ways"
		return []jsonschema.Violation{ijson.NewViolation("", "steps", why)}
	}
	for _, one := range all {
		if one.Format == jsonschema.FormatName {
			why := fmt.Sprintf("must be written as it is declared: %q", one.Value)
			found = append(found, ijson.NewViolation(one.Pointer, "properties", why))
		} else if why := unsafe(one.Format, one.Value, folders); why != "" {
			found = append(found, ijson.NewViolation(one.Pointer, "format", why))
		}
		if len(found) > ijson.MaxViolations {
			break
		}
	}
	return found
}

// unsafe returns why a value is not safe as what its format says, or "" if it is. A list is as safe as its items. The
// schema decides whether null is allowed.
func unsafe(format string, value any, folders []string) string {
	list, isList := value.([]any)
	text, isText := value.(string)
	switch {
	case value == nil:
	case format == jsonschema.FormatCommand && isList:
		return unsafeVector(list)
	case isList:
		for _, item := range list {
			if why := unsafe(format, item, folders); why != "" {
				return why
			}
		}
	case !isText:
		return "must be a string, or a list of strings"
	case format == jsonschema.FormatURI:
		return unsafeAddress(text)
	case format == jsonschema.FormatPath:
		return unsafePath(text, folders)
	case format == jsonschema.FormatCommand:
		return unsafeCommand(text)
	}
	return ""
}

// unsafeAddress refuses addresses that lead elsewhere than to a web server, and those that programs read in several
// ways.
func unsafeAddress(address string) string {
	u, err := url.Parse(address)
	switch {
	case strings.ContainsFunc(address, unicode.IsControl):
		return "must have no control character"
	case err != nil:
		return "must be an address"
	case u.Scheme != "http" && u.Scheme != "https":
		return "must be an http or https address"
	case u.User != nil:
		return "must have no user information"
	case u.Hostname() == "":
		return "must name a host"
	}
	return ""
}

// invisible reports whether a character controls how text is read or shown: one of the Unicode categories Cc and Cf,
// or a separator of lines.
func invisible(r rune) bool { return unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp) }

var (
	// scheme matches the beginning of a URI (RFC 3986 §3.1), or of a path on a drive of Windows.
	scheme = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9+.-]*:`)
	// address matches a word of a command with a URI in it. A word such as nginx:latest has none.
	address = regexp.MustCompile(`[A-Za-z][A-Za-z0-9+.-]*:[/\\]`)
	// compatible replaces characters by those of ASCII to which Unicode calls them compatible (NFKC).
	compatible = strings.NewReplacer("．", ".", "﹒", ".", "․", ".", "‥", "..", "…", "...", "／", "/", "＼", `\`, "﹨", `\`,
		"～", "~", "：", ":", "﹕", ":")
)

// unsafePath refuses paths that lead out of the folder to which they are relative. The separator of Windows counts,
// too, and characters that Unicode calls compatible with those of ASCII (NFKC), which a file system may take for them.
func unsafePath(name string, folders []string) string {
	plain := compatible.Replace(name)
	parts := strings.FieldsFunc(plain, isSeparator)
	switch {
	case strings.ContainsFunc(name, invisible):
		return "must have no control or format character"
	case slices.Contains(parts, ".."):
		return "must have no member .."
	case slices.ContainsFunc(parts, func(part string) bool { return part[0] == '~' }):
		return "must have no member that begins with ~"
	case scheme.MatchString(plain):
		return "must have no scheme"
	case isAbsolute(plain) && !slices.ContainsFunc(folders, func(folder string) bool { return within(folder, name) }):
		return "must be relative, or lie in a folder that the tool may open: " + absolute(folders)
	}
	return ""
}

// absolute lists the folders in which an absolute path may lie.
func absolute(folders []string) string {
	folders = slices.DeleteFunc(slices.Clone(folders), func(folder string) bool { return !path.IsAbs(folder) })
	return cmp.Or(strings.Join(folders, ", "), "it declares none in capabilities.fs")
}

func isSeparator(r rune) bool { return r == '/' || r == '\\' }

func isAbsolute(name string) bool { return name != "" && isSeparator(rune(name[0])) }

// within reports whether an absolute path without .. lies in a folder. No path lies in a relative folder, because
// nobody here knows where that is.
func within(folder, name string) bool {
	folder, name = path.Clean(folder), path.Clean(name)
	return path.IsAbs(folder) && (name == folder || strings.HasPrefix(name, strings.TrimSuffix(folder, "/")+"/"))
}

// unsafeCommand refuses commands that a shell would take for several, or that read or write files, and words that a
// shell or a program takes for a file elsewhere.
func unsafeCommand(command string) string {
	words := strings.Fields(command)
	switch {
	case strings.ContainsAny(command, ";|&$`<>"):
		return "must not contain ; | & $ ` < >"
	case strings.ContainsFunc(command, invisible):
		return "must be one line without control and format characters"
	case slices.ContainsFunc(words, func(word string) bool { return word[0] == '~' }):
		return "must have no word that begins with ~"
	case slices.ContainsFunc(words, address.MatchString):
		return "must have no word with a scheme"
	}
	return ""
}

// unsafeVector refuses what is not one argument vector. No shell reads the arguments, so they may have any text, also
// of several lines.
func unsafeVector(arguments []any) string {
	for i, argument := range arguments {
		text, ok := argument.(string)
		text = strings.NewReplacer("\t", " ", "\r", " ", "\n", " ").Replace(text)
		hidden := strings.ContainsFunc(text, invisible)
		switch {
		case !ok || hidden:
			return "must be a list of strings without control and format characters"
		case i == 0 && (strings.HasPrefix(text, "~") || scheme.MatchString(text)):
			return "must begin with a program, without ~ and scheme"
		}
	}
	return ""
}
