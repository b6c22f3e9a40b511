"""What the image and video suites share: backbones, image reading, augmentation."""
