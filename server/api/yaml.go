package api

import (
	"bytes"
	"errors"
	"fmt"

	"go.yaml.in/yaml/v3"
)

// yamlGrowth is how many times larger than its text a YAML document may become by repeating itself through aliases, and
// yamlDepth how deeply it may nest.
const (
	yamlGrowth = 10
	yamlDepth  = 200
)

var errYAMLGrows = errors.New("error converting YAML to JSON: the document repeats itself too often through aliases")

// boundYAML refuses documents that are small as text and huge as data. Only such with anchors can be.
func boundYAML(text []byte) error {
	if !bytes.ContainsRune(text, '&') || !bytes.ContainsRune(text, '*') {
		return nil
	}
	var doc yaml.Node
	if err := yaml.Unmarshal(text, &doc); err != nil {
		return fmt.Errorf("error converting YAML to JSON: %w", err)
	}
	b := yamlBound{limit: yamlGrowth*len(text) + 1<<16, sizes: map[*yaml.Node]int{}}
	if _, err := b.size(&doc, 0); err != nil {
		return err
	}
	return nil
}

type yamlBound struct {
	limit int
	sizes map[*yaml.Node]int
}

// size is what a node has in bytes when its aliases are written out, each node being measured once.
func (b *yamlBound) size(node *yaml.Node, depth int) (int, error) {
	if depth > yamlDepth {
		return 0, errYAMLGrows
	}
	if n, ok := b.sizes[node]; ok {
		if n < 0 {
			return 0, errYAMLGrows
		}
		return n, nil
	}
	b.sizes[node] = -1
	total := len(node.Value) + 2
	if node.Kind == yaml.AliasNode {
		n, err := b.size(node.Alias, depth+1)
		if err != nil {
			return 0, err
		}
		total = n
	}
	for _, child := range node.Content {
		n, err := b.size(child, depth+1)
		if err != nil {
			return 0, err
		}
		if total += n; total > b.limit {
			return 0, errYAMLGrows
		}
	}
	b.sizes[node] = total
	return total, nil
}
