package tool_test

import "testing"

// A manifest that uses no field of this build has the build digest that builds before the page docs/manifest.md gave it
// (commit 41152aef), so that processes of both ages run its calls as one build.
func TestDigestsOfEarlierBuilds(t *testing.T) {
	for digest, manifest := range map[string]string{
		"sha256:06ff9e84d3867e6fc78a97fb263a9f4988958ca995236796a9bafbe742f695d1": minimal,
		"sha256:90f693024a0fd261c39ae15edde706cb37f4faab04f375b64206b602f2c0e406": full,
		"sha256:04b0fd35be6bf32ab81babdc1ed2dcad9eb59d64f27eb20aa778c4ac8925b57b": minimal + "name: fetch\n",
	} {
		if got := mustLoad(t, folder("web.fetch", manifest, nil)).Digest; got != digest {
			t.Errorf("digest %s, want %s of\n%s", got, digest, manifest)
		}
	}
}
