"""What a checkpoint is, above the bytes.

Read `format` first: the specification of the checkpoint format. Every other module is a part of it:

* `codec`           values to bytes and back, exactly
* `tags`            the builtin types that MessagePack has no word for
* `shapes`          how objects of each kind of class are taken apart and rebuilt
* `registry`        which classes may be stored, and by which name
* `places`          where in a value the trouble is
* `checkpoint_ids`  ids that ascend
* `threads`         what a driver does to load and save
"""

from __future__ import annotations

from juncture.persistence.registry import register_type

__all__ = ["register_type"]
