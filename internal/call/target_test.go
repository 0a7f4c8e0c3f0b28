package call_test

import (
	"net/url"
	"path"
	"strings"
	"testing"

	"github.com/seed-018f16cc/toolbus/internal/call"
)

// A target lies in a write target, or below it, however both are spelled. What may lead elsewhere lies nowhere.
func TestWithin(t *testing.T) {
	t.Parallel()
	for of, targets := range map[string]map[string]bool{
		"file:///srv/share": {
			"file:///srv/share": true, "file:///srv/share/x": true, "file:/srv/share/x": true,
			"FILE://localhost/srv/share/x": true,
			"file:///srv/./share//x":       true, "file:///srv/sh%61re/x": true, "file:///srv/share/..x/y": true,
			"file:///srv/share/a%2Fb": true, "file:///srv/share/100%": true, "file:///srv/share/%zz": true,

			"file:///srv/share-secret/x": false, "file:///srv/shar": false, "file:///srv/share.x": false,
			"file:///srv/share/../x": false, "file:///srv/share/a/%2e%2e/%2e%2e/x": false,
			`file:///srv/share\..\x`: false, "file:///srv/share/%2E./x": false,
			"file:///srv/share/%252e%252e/x": false, "file:///srv/share/a%2f..%2f..%2fx": false,
			"file:///srv/share/%5c..%5cx": false, "file:///srv%2Fshare/x": false, "file:///srv/share/x\x00": false,
			"file://other/srv/share/x": false, "/srv/share/x": false, "": false, "http:///srv/share/x": false,
		},
		"file:/srv/out/": {
			"file:/srv/out/a": true, "file:/srv/out/a/": true, "file:/srv/out": false, "file:/srv/outer": false,
		},
		"https://api.example.com": {
			"https://API.example.com/v1": true, "https://api.example.com?x": true, "https://api.example.com": true,
			"https://api.example.com.evil/": false, "https://api.example.com:8443/": false,
			"https://api.example.com@evil/": false, "http://api.example.com/": false,
		},
		"s3://bucket/logs": {"s3://bucket/logs/1": true, "s3://bucket/logs-old/1": false, "s3://bucket//logs/1": false},
		"db:orders": {
			"db:orders": true, "db:orders/7": true, "DB:orders": true, "db:orders2": false, "db:Orders": false,
		},
		"bank:":        {"bank:7": true, "bank": false, "banker:7": false},
		"srv/out":      {"srv/out/x": true, "./srv/out/x": true, "/srv/out/x": false, "srv/output": false},
		"/":            {"/etc": true, "etc": false},
		"file:/a/../b": {"file:/b": false, "file:/a/../b": false},
		"":             {"x": false, "": false},
	} {
		for target, within := range targets {
			if call.Within(of, target) != within {
				t.Errorf("%q within %q: %t", target, of, !within)
			}
		}
	}
}

// Only "*" allows every target, and an empty list allows none.
func TestWriteTargetsAllow(t *testing.T) {
	t.Parallel()
	for _, target := range []string{"", "x", "file:/srv/../x"} {
		if !(call.WriteTargets{"db:", call.AnyTarget}).Allow(target) || (call.WriteTargets{}).Allow(target) ||
			(call.WriteTargets{"file:/srv", "db:"}).Allow(target) {
			t.Errorf("%q: by every target, by none, or by another", target)
		}
	}
	a := call.Attempt{Writes: true}
	if !a.Targets(nil).Allow("x") || a.Targets([]string{"y"}).Allow("x") || (call.Attempt{}).Targets(nil).Allow("x") {
		t.Error("the targets of a request event are not those of its attempt")
	}
}

// What lies below a folder lies below it for package url and package path, too.
func FuzzWithin(f *testing.F) {
	for _, target := range []string{
		"file:///srv/share/x", "file:/srv/share/%2e%2e/x", "file:/srv/share-secret", `file:/srv/share/a\..\..\x`,
		"file://localhost/srv//share/./x", "file:/srv/share/%252e%252e/x", "file:/srv/share?/../x", "FiLe:///srv/sh%61re",
	} {
		f.Add(target)
	}
	f.Fuzz(func(t *testing.T, target string) {
		if !call.Within("file:///srv/share", target) {
			return
		}
		u, err := url.Parse(strings.ReplaceAll(target, `\`, "/"))
		if err != nil {
			return // no program opens it as an address
		}
		if clean := path.Clean("/" + u.Path); clean != "/srv/share" && !strings.HasPrefix(clean, "/srv/share/") {
			t.Errorf("%q is %s", target, clean)
		}
	})
}
