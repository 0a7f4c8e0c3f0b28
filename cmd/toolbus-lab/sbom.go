package main

import (
	"debug/buildinfo"
	"fmt"
	"maps"
	"math"
	"path/filepath"
	"runtime/debug"
	"slices"

	cdx "github.com/CycloneDX/cyclonedx-go"
	"github.com/spf13/cobra"

	"github.com/seed-018f16cc/toolbus/internal/cli"
)

func sbomCmd(l *lab) *cobra.Command {
	return &cobra.Command{
		Use: "sbom PROGRAM...", Short: "Print the modules in Go programs as a CycloneDX document",
		Long: `Prints which modules are in the named Go programs, and the Go version that built them, as a document in the
JSON format of CycloneDX. It reads the programs, and neither go.mod nor the network. Equal programs give equal
documents.`,
		Example: "  toolbus-lab sbom bin/toolbus bin/executor > sbom.cdx.json",
		Args:    cli.Args(1, math.MaxInt, "one or more programs"),
		RunE: func(_ *cobra.Command, files []string) error {
			bom, err := bomOf(files)
			if err != nil {
				return err
			}
			return cdx.NewBOMEncoder(l.env.Stdout, cdx.BOMFileFormatJSON).SetPretty(true).Encode(bom)
		},
	}
}

// bomOf returns the document about the module of the first program in files, with the modules in all of them.
func bomOf(files []string) (*cdx.BOM, error) {
	libraries, programs := map[string]cdx.Component{}, []cdx.Component{}
	var about cdx.Component
	for i, file := range files {
		info, err := buildinfo.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		if i == 0 {
			about = component(cdx.ComponentTypeApplication, &info.Main)
		}
		name := filepath.Base(file)
		programs = append(programs, cdx.Component{
			BOMRef: "program:" + name, Type: cdx.ComponentTypeApplication, Name: name, Version: info.Main.Version,
		})
		for _, m := range append(info.Deps, &info.Main, &debug.Module{Path: "std", Version: info.GoVersion}) {
			c := component(cdx.ComponentTypeLibrary, m)
			libraries[c.BOMRef] = c
		}
	}
	delete(libraries, about.BOMRef)
	about.Components = &programs
	all := []cdx.Component{}
	for _, ref := range slices.Sorted(maps.Keys(libraries)) {
		all = append(all, libraries[ref])
	}
	bom := cdx.NewBOM()
	bom.Metadata, bom.Components = &cdx.Metadata{Component: &about}, &all
	return bom, nil
}

// component returns a module as a component, with its package URL.
func component(kind cdx.ComponentType, m *debug.Module) cdx.Component {
	url := fmt.Sprintf("pkg:golang/%s@%s", m.Path, m.Version)
	return cdx.Component{BOMRef: url, Type: kind, Name: m.Path, Version: m.Version, PackageURL: url}
}
