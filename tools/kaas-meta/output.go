package main

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/goccy/go-yaml"
	"github.com/spf13/cobra"
)

// outputFlag adds -o with the formats a command has, the first one its default.
func (a *app) outputFlag(cmd *cobra.Command, formats ...string) {
	output := cmd.Flags().StringP("output", "o", formats[0], fmt.Sprintf("one of %v", formats))
	cmd.PreRunE = func(*cobra.Command, []string) error {
		if a.output = *output; !slices.Contains(formats, a.output) {
			return fmt.Errorf("-o %s: must be one of %v", a.output, formats)
		}
		return nil
	}
}

// print writes v as JSON or YAML, with the same names in both.
func (a *app) print(v any) error {
	b, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		return err
	}
	b = append(b, '\n')
	if a.output == "yaml" {
		if b, err = yaml.JSONToYAML(b); err != nil {
			return err
		}
	}
	_, err = a.out.Write(b)
	return err
}
